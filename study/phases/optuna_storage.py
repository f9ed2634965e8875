"""Optuna's storage of a search, `search.db`, with clear errors for a full or locked disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from urllib.parse import quote

import optuna
from optuna.exceptions import StorageInternalError
from optuna.study import get_all_study_summaries
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError

from study.errors import Paused

DESIGNS = "designs"  # user attribute of an arm's history: hashes, as in the records of its runs
HISTORY = "search.db"
LOCK_TIMEOUT_S = 60


def open_read_only(file: Path) -> optuna.storages.RDBStorage:
    """The storage of a search, of which nothing is written, not even a lock."""
    return optuna.storages.RDBStorage(f"sqlite:///file:{quote(str(file))}?mode=ro&uri=true")


def designs_of(folder: Path) -> set[str]:
    """Hashes of the designs under which a folder's searches ran; none where it cannot be read."""
    try:
        found = get_all_study_summaries(open_read_only(folder / HISTORY), False)
    except (SQLAlchemyError, StorageInternalError):  # `--verify` names a missing or damaged file
        return set()
    return {design for arm in found for design in arm.user_attrs.get(DESIGNS, ())}


def open_storage(folder: Path, name: str = HISTORY) -> optuna.storages.RDBStorage:
    file = folder / name
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{file}", engine_kwargs={"connect_args": {"timeout": LOCK_TIMEOUT_S}}
    )

    @event.listens_for(storage.engine, "handle_error")
    def tell(context: ExceptionContext) -> None:
        # Optuna calls them all invalid data in the commit.
        text = str(context.original_exception)
        if "disk is full" in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file)) from None
        if "readonly" in text or "unable to open" in text:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file)) from None
        if "locked" in text:
            raise Paused(
                f"another process has kept {file} locked for {LOCK_TIMEOUT_S} s\n"
                "  try: end that process, then the same command with --resume"
            ) from None

    return storage
