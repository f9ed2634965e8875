"""The mirror: copies a study from its local folder to a store while it runs.

Whatever has been copied when the driver dies must be a study that can continue. So copies are made
in the order in which things depend on each other, and a round that fails ends there:

1. the design and the log of looks;
2. the search's history, as one consistent snapshot;
3. the endings of the search, then of rechecks; a trial that the history says has ended and whose
   ending is missing is trained again, on its settings (`study.phases.search`). The other
   way round would be wrong: an ending could be taken for that of a trial which was drawn anew,
   differently;
4. the frozen winners, then the endings of the confirmation, which are refused without them;
5. tables, report and all else; then checkpoints, every few minutes.

What is to be copied is listed from the end of that order to its start, so that a file is listed
only if all that it depends on is listed, too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from study.storage.object_store import Store, StoreError

EVERY_S = 3.0  # between rounds
WAIT_AT_MOST_S = 30.0  # between rounds while the store fails
CHECKPOINTS_EVERY_S = 300.0  # they are large, and each replaces the one before
AT_ONCE = 8  # objects of one kind
_HISTORY = "search.db"
_CHECKPOINTS = "checkpoints/"
# Not copied: Ray's own files, and what belongs to this machine.
_LOCAL = (
    "ray/", "lock", "driver.json", "tokens.json", "search.db-", "fetching/",
    # Its hashes could run ahead of a copied log, which would then look as if lines were gone.
    "sessions.lock", "sessions.sha256",
)  # fmt: skip
_FIRST = ("study.yaml", "sessions.jsonl", "packing.json")

Signature = tuple[int, int]


class Mirror:
    """Copies a study's folder to a store, from one thread, until it is closed.

    Args:
        folder: of the study.
        store: where to.
        mine: asked before each round whether the study is still this driver's.
        warn: called when copying fails, and when it works again.
        complete: the folder has just been fetched; only changes from now on are copied.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        mine: Callable[[], bool] = lambda: True,
        warn: Callable[[str], None],
        complete: bool = False,
    ) -> None:
        self._folder, self._store, self._mine, self._warn = folder, store, mine, warn
        self._copied: dict[str, Signature] = {}
        self._checkpoints_at = 0.0
        self._stale: list[str] | None = None  # checkpoints of earlier sessions, once listed
        self._put: set[str] = set()
        if complete:
            self._copied = {n: _signature(f) for group in _groups(folder) for n, f in group}
        self._snapshot: Path | None = None
        self._snapshot_of: Signature | None = None
        self._closing, self._giving_up = threading.Event(), threading.Event()
        self._error, self._writes = "", 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to copy."""
        self._thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self._thread.start()

    def close(self, patience_s: float, *, hurry: bool = False) -> str:
        """Copy what is left and end.

        Args:
            patience_s: how long a store that takes nothing is waited for.
            hurry: end after that time even if it does take something.

        Returns:
            What could not be copied and why, in a line; empty if all is there.
        """
        assert self._thread is not None
        self._closing.set()
        deadline, before = time.monotonic() + patience_s, -1
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(0.1)
            if self._writes != before and not hurry:
                deadline, before = time.monotonic() + patience_s, self._writes
        self._giving_up.set()
        self._thread.join(1)
        if self._thread.is_alive() and not self._error:
            self._error = f"not done within {patience_s:.0f} s"
        return f"{self._left()} ({self._error})" if self._error else ""

    def forget(self) -> None:
        """Remove what this mirror has put into the store."""
        with contextlib.suppress(StoreError):
            for name in sorted(self._put):
                self._store.remove(name)

    def round(self, *, last: bool = False) -> None:
        """Copy what has changed, in order.

        Raises:
            StoreError: an object could not be written; those after it are left for the next round.
        """
        if not self._mine():
            raise StoreError("another driver has taken the study over")
        groups = _groups(self._folder)
        with self._history():
            for group in groups[:-1]:
                self._copy(group)
        if last or time.monotonic() - self._checkpoints_at >= CHECKPOINTS_EVERY_S:
            self._checkpoints(groups[-1])

    def _work(self) -> None:
        wait, told = EVERY_S, ""
        while not self._closing.wait(wait):
            if self._tried():
                if told:
                    self._warn(f"{self._store.address} is being written again")
                wait, told = EVERY_S, ""
                continue
            wait = min(2 * wait, WAIT_AT_MOST_S)
            if not told:
                told = self._error
                self._warn(
                    f"{self._store.address} cannot be written ({told}); the study continues in "
                    f"{self._folder} and copying is tried again"
                )
        while not self._tried() and not self._giving_up.wait(1):
            pass

    def _tried(self) -> bool:
        try:
            self.round(last=self._closing.is_set())
        except Exception as error:  # whatever it is: the thread lives on, and `close` tells
            self._error = str(error) or type(error).__name__
            return False
        self._error = ""
        return True

    @contextlib.contextmanager
    def _history(self) -> Iterator[None]:
        """A snapshot of the search's history, if it has changed, for as long as a round lasts.

        It is taken after everything else was listed, so that it knows of every trial whose ending
        is going to be copied.
        """
        file = self._folder / _HISTORY
        self._snapshot, self._snapshot_of = None, _known(file)
        if self._snapshot_of is None or self._snapshot_of == self._copied.get(_HISTORY):
            yield
            return
        copy = file.with_name(f"{file.name}.part")
        copy.unlink(missing_ok=True)
        try:
            with (
                contextlib.closing(sqlite3.connect(file, timeout=30)) as source,
                contextlib.closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
            self._snapshot = copy
            yield
        finally:
            copy.unlink(missing_ok=True)

    def _copy(self, group: Sequence[tuple[str, Path]]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._copy_one, group))

    def _copy_one(self, item: tuple[str, Path]) -> None:
        name, file = item
        if self._giving_up.is_set():
            raise StoreError(self._error or "there was no time left")
        # Taken before the file is read: a change while it is copied shows in the next round.
        signature = self._snapshot_of if name == _HISTORY else _known(file)
        if signature is None or self._copied.get(name) == signature:
            return
        if name == _HISTORY:
            if self._snapshot is None:
                return
            file = self._snapshot
        self._put.add(name)
        with contextlib.suppress(FileNotFoundError):  # removed in between
            self._store.copy(file, name)
            self._copied[name] = signature
            self._writes += 1

    def _checkpoints(self, group: Sequence[tuple[str, Path]]) -> None:
        if self._stale is None:
            self._stale = self._store.below(_CHECKPOINTS)
        known = {*self._stale, *(n for n in self._copied if n.startswith(_CHECKPOINTS))}
        for name in sorted(known - {name for name, _ in group}):
            self._store.remove(name)
            self._copied.pop(name, None)
        self._stale = []
        self._copy(group)
        self._checkpoints_at = time.monotonic()

    def _left(self) -> str:
        names = [
            name
            for group in _groups(self._folder)
            for name, file in group
            if _known(file) != self._copied.get(name)
        ]
        first = f", the first {names[0]}," if names else ""
        return f"{len(names)} files of {self._folder}{first} are not in {self._store.address}"


def _groups(folder: Path) -> list[list[tuple[str, Path]]]:
    """Files by name, in the order in which they are to be copied."""
    runs = [f"runs/{phase}/" for phase in ("search", "recheck", "confirm")]
    order = [_FIRST, (_HISTORY,), (runs[0],), (runs[1],), ("winners.json",), (runs[2],), None,
             (_CHECKPOINTS,)]  # fmt: skip
    claimed = tuple(start for group in order if group for start in group)
    found = []
    for starts in reversed(order):
        if starts is None:
            group = [
                (name, file)
                for name, file in _files(folder)
                if not name.startswith((*claimed, *_LOCAL))
            ]
        else:
            group = [item for start in starts for item in _below(folder, start)]
        found.append(group)
    return found[::-1]


def _below(folder: Path, start: str) -> Iterator[tuple[str, Path]]:
    if not start.endswith("/"):
        if (folder / start).is_file():
            yield start, folder / start
        return
    for name, file in _files(folder / start):
        yield f"{start}{name}", file


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Whole files below a folder, but not Ray's, which are many."""
    for parent, folders, names in os.walk(folder):
        if Path(parent) == folder:
            folders[:] = [name for name in folders if f"{name}/" not in _LOCAL]
        for name in sorted(names):
            if not name.endswith(".part"):
                file = Path(parent, name)
                yield file.relative_to(folder).as_posix(), file


def _signature(file: Path) -> Signature:
    found = file.stat()
    return found.st_mtime_ns, found.st_size


def _known(file: Path) -> Signature | None:
    try:
        return _signature(file)
    except FileNotFoundError:
        return None
