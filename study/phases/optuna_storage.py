"""Optuna's storage of a search, `search.db`, with clear errors for a full or locked disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import optuna
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext

from study.errors import Paused

LOCK_TIMEOUT_S = 60


def open_storage(folder: Path) -> optuna.storages.RDBStorage:
    file = folder / "search.db"
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
