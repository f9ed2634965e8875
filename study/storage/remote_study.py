"""A study with an address: brought here, kept there while it runs, released at the end.

It is worked on in a folder of this machine, below the cache, with all that a study in a folder of
its own has: locks, whole files, a database. A `Mirror` keeps the copy in the store a few seconds
behind, a `DriverLease` keeps other machines away.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.inputs.session_log import SessionLog
from study.environment import cache_root
from study.errors import Paused, StudyError, listing
from study.records import digest, write_whole
from study.storage.driver_lease import SIGN, DriverLease
from study.storage.folder import already_exists, state_of
from study.storage.mirror import Mirror
from study.storage.object_store import Store, StoreError, place

WAIT_AT_END_S = 60.0  # at the end, for a store that takes nothing
HURRY_S = 7.0  # after Ctrl-C


class RemoteStudy:
    """One study at an address.

    Args:
        address: `--storage`.
        name: of the study.
        say: called with what the user should know, in a line.

    Raises:
        StudyError: the address cannot be used.
    """

    def __init__(self, address: str, name: str, say: Callable[[str], None]) -> None:
        self.store = Store(address, name)
        self.path = cache_root() / "studies" / digest(place(address))[:12] / name
        self._say, self._forgotten = say, False

    def refuse_existing(self, *, command: str, named: str) -> None:
        """As `Folder.refuse_existing`, of what is in the store."""
        with _answering(self.store):
            if self.store.holds("study.yaml"):
                raise already_exists(
                    self.store.name,
                    where=self.store.address,
                    state=state_of(self.store.holds),
                    command=command,
                    named=named,
                    free_name=self.store.free_name(),
                )

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Bring the study here, and copy it to the store for as long as the block runs.

        Call it with the lock of the local folder in hand.

        Raises:
            StudyError: another machine is running the study, or the store does not answer.
            Paused: at the end something could not be copied.
        """
        claim = DriverLease(self.store, self.path)
        with _answering(self.store):
            fetched = self._bring(claim)
        mirror = Mirror(self.path, self.store, mine=claim.check, warn=self._say, complete=fetched)
        mirror.start()
        hurry = False
        try:
            yield
        except KeyboardInterrupt:
            hurry = True
            raise
        finally:
            left = self._close(mirror, claim, hurry=hurry)
            if left:
                self._say(left)
        if left:
            raise Paused(
                f"the results are in {self.path}, but not all of them in {self.store.address}\n"
                "  try: the same command with --resume, on this machine"
            )

    def forget(self) -> None:
        """Nothing has run: take back what this session put into the store."""
        self._forgotten = True

    def _close(self, mirror: Mirror, claim: DriverLease, *, hurry: bool) -> str:
        if self._forgotten:
            mirror.close(HURRY_S, hurry=True)
            mirror.forget()
            claim.release(erase=True)
            return ""
        left = mirror.close(HURRY_S if hurry else WAIT_AT_END_S, hurry=hurry)
        claim.release()
        return left

    def _end_study(self) -> None:
        self._say(
            f"another driver has taken over the study in {self.store.address}; this one ends, and "
            "copies nothing more"
        )
        _thread.interrupt_main(signal.SIGTERM)

    def _bring(self, claim: DriverLease) -> bool:
        """Take the lease and bring the folder up to date; whether it was fetched."""
        last = claim.wait_for_others(self._say)
        there = self.store.holds("study.yaml")
        here = (self.path / "study.yaml").exists()
        if not there or (here and last in self._tokens()):
            # Nobody has worked on it since this folder did: it is as new as the store, or newer.
            self._note(last, claim.token)
            self._take(claim)
            return False
        self._take(claim)
        try:
            fetch(self.store, self.path)
        except BaseException:
            claim.release()
            raise
        self._note(claim.token)
        return True

    def _take(self, claim: DriverLease) -> None:
        """Sign, and give signs of life at once: fetching may take minutes."""
        claim.sign()
        claim.keep(on_lost=self._end_study)

    def _tokens(self) -> list[str]:
        """Of the drivers that have worked in this folder."""
        try:
            return list(json.loads((self.path / "tokens.json").read_text()))
        except (OSError, ValueError):
            return []

    def _note(self, *tokens: str | None) -> None:
        write_whole(self.path / "tokens.json", json.dumps([token for token in tokens if token]))


def fetch_report(address: str, folder: Path, *, needed: bool) -> None:
    """Design and figures of a study at an address, if there are any, into a folder.

    Args:
        address: `--storage`.
        folder: named like the study.
        needed: the study must be there.

    Raises:
        StudyError: the store does not answer, or does not have what is needed.
    """
    store = Store(address, folder.name)
    with _answering(store):
        if needed and not store.holds("study.yaml"):
            known = listing(store.studies()) or "none"
            raise StudyError(
                f"there is no study in {store.address}\n"
                f"  allowed: the name of a study there: {known}\n"
                "  try: --storage with another address or folder if it was kept elsewhere"
            )
        for name in ("study.yaml", "runs.csv", "report/report.json"):
            content = store.read(name)
            if content is not None:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)


def fetch_others(address: str, name: str, storage: Path) -> None:
    """Design, log and the names of ended runs of all other studies at an address, into a folder.

    Args:
        address: `--storage`.
        name: of the study that is not meant.
        storage: gets a folder for each of them.

    Raises:
        StudyError: the store does not answer.
    """
    with _answering(Store(address, name)):
        for other in Store(address, name).studies():
            if other == name:
                continue
            store, folder = Store(address, other), storage / other
            ended = store.below("runs/confirm/")
            for run in ended:
                (folder / run).parent.mkdir(parents=True, exist_ok=True)
                (folder / run).touch()
            for file in ("study.yaml", "sessions.jsonl") if ended else ():
                (folder / file).write_bytes(store.read(file) or b"")


def fetch(store: Store, folder: Path) -> None:
    """Bring a study into its local folder, whole; an older state of it is put aside.

    Raises:
        StoreError: it could not be read.
    """
    _put_aside(folder)
    scratch = folder / "fetching"
    store.fetch(scratch)
    (scratch / SIGN).unlink(missing_ok=True)
    SessionLog(scratch).adopt()
    # The design comes last: a folder that has it has all the rest.
    for entry in sorted(scratch.iterdir(), key=lambda entry: entry.name == "study.yaml"):
        entry.rename(folder / entry.name)
    scratch.rmdir()


def _put_aside(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in folder.iterdir() if entry.name not in ("lock", "tokens.json")]
    if not (folder / "study.yaml").exists():  # of a fetch that did not end
        for entry in entries:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.aside-{number}")).exists():
        number += 1
    aside.mkdir()
    for entry in entries:
        entry.rename(aside / entry.name)


@contextlib.contextmanager
def _answering(store: Store) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StudyError(
            f"{store.address} cannot be reached: {error}\n"
            "  try: check the address, the bucket and the credentials; or --storage with a folder"
        ) from None
