"""The history of a search, `search.db`, made again from the ledger where it was lost or damaged.

What was drawn, how far each trial got and how it ended stands in `runs/search`, too. So a search
continues, or ends, as if nothing had happened.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from study.design import Study
from study.phases.arm import REJECTED, ArmSearch, optuna_name
from study.phases.optuna_storage import HISTORY, open_storage
from study.records import Ending, Ledger

_SCRATCH = f"{HISTORY}-rebuilt"  # not copied to a store, as what SQLite itself puts beside it
_OF_SQLITE = ("", "-journal", "-wal", "-shm")
# Everything else, such as a lock or a missing right, is no damage: opening it says what it is.
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

_ALL = "SELECT study_name, number FROM trials JOIN studies USING (study_id)"
_ENDED = (
    f"{_ALL} WHERE state IN ('COMPLETE', 'PRUNED', 'FAIL') AND trial_id NOT IN "
    f"(SELECT trial_id FROM trial_user_attributes WHERE key = '{REJECTED}')"
)


def mend_history(study: Study, folder: Path, ledger: Ledger, *, say: Callable[[str], None]) -> None:
    """Rebuild `search.db` if it is missing, unreadable, or lacks trials that the ledger has.

    The damaged file is kept as `search.db.damaged`.

    Args:
        study: as it is to continue.
        folder: of the study.
        ledger: what is known of its trials.
        say: tells the user.

    Raises:
        StudyError: a record of the ledger was changed.
    """
    if study.search is None:
        return
    endings = [ending for ending in ledger.all("search") if ending.job.arm in study.arms]
    state = _state(folder / HISTORY, study, endings)
    if not state:
        return
    _remove(folder / _SCRATCH)  # of an attempt that was interrupted
    storage = open_storage(folder, _SCRATCH)
    for part in study.replicates:
        for name in study.arms:
            at = (name, part.number)
            own = {e.job.number: e for e in endings if (e.job.arm, e.job.replicate) == at}
            if own:
                ArmSearch(part, name, storage).replay(own)
    storage.engine.dispose()
    kept = _put_aside(folder)
    os.replace(folder / _SCRATCH, folder / HISTORY)
    say(
        f"{folder / HISTORY} {state}; it is rebuilt from {len(endings)} trials in runs/search"
        + (f", and what was there is {kept}" if kept else "")
    )


def lost_records(study: Study, folder: Path, ledger: Ledger) -> set[int | None]:
    """The replicates with trials that ended by `search.db` and have no record in the ledger."""
    if study.search is None or not (folder / HISTORY).is_file():
        return set()
    recorded = {(e.job.replicate, e.job.arm, e.job.number) for e in ledger.all("search")}
    try:
        ended = set(_asked(folder / HISTORY, _ENDED))
    except sqlite3.Error:  # locked, say: they are run again at the next start
        return set()
    return {
        part.number
        for part in study.replicates
        for arm in study.arms
        for name, number in ended
        if name == optuna_name(part, arm) and (part.number, arm, number) not in recorded
    }


def _state(file: Path, study: Study, endings: Sequence[Ending]) -> str:
    """What is wrong with the history; "" where nothing is, or that is not to be known now."""
    if not file.exists():
        return "was missing" if endings else ""
    if file.is_dir():
        return "was damaged"
    if not file.stat().st_size and not endings:
        return ""  # a driver that was killed while it began
    try:
        known = set(_asked(file, _ALL))
    except sqlite3.Error as error:
        # By the lowest byte: the others tell kinds of the same error apart.
        return "was damaged" if getattr(error, "sqlite_errorcode", 1) & 255 in _DAMAGE else ""
    parts = {part.number: part for part in study.replicates}
    lost = [
        (e.job.arm, e.job.number)
        for e in endings
        if (part := parts.get(e.job.replicate))
        and (optuna_name(part, e.job.arm), e.job.number) not in known
    ]
    return f"lacked {len(lost)} trials" if lost else ""


def _asked(file: Path, question: str) -> Iterator[tuple[str, int]]:
    """An Optuna study's name and a trial's number each, after a look at the whole file.

    Asked of SQLite itself, as Optuna takes half a second to open it.
    """
    with closing(
        sqlite3.connect(f"file:{quote(str(file))}?mode=rw", timeout=1, uri=True)
    ) as database:
        found = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise sqlite3.DatabaseError(str(found))
        yield from database.execute(question)


def _put_aside(folder: Path) -> str:
    """Keep a damaged history, with SQLite's journal, which would spoil the new one."""
    if not any((folder / f"{HISTORY}{end}").exists() for end in _OF_SQLITE):
        return ""
    name, number = f"{HISTORY}.damaged", 2
    while (folder / name).exists():
        name, number = f"{HISTORY}.damaged-{number}", number + 1
    for end in _OF_SQLITE:
        if (folder / f"{HISTORY}{end}").exists():
            os.replace(folder / f"{HISTORY}{end}", folder / f"{name}{end}")
    return name


def _remove(file: Path) -> None:
    for end in _OF_SQLITE:
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
