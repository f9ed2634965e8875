"""The lease of a driver on a study in a store, which keeps two machines from running it.

A store has no locks. So a driver leaves a sign of life there, `driver.json`, and one that finds the
sign of another waits to see whether it changes. That keeps people from starting a study twice; it
is no lock, see docs/cluster.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from study.errors import StudyError
from study.storage.object_store import Store, StoreError

SIGN = "driver.json"
BEAT_S = 10.0
SILENT_S = 40.0  # a driver that gives no sign for so long is taken for dead
_SETTLE_S = 2.0  # of two that start at the same moment the first one sees the other's sign by then


class DriverLease:
    """This process's claim on a study in a store.

    Args:
        store: of the study.
        folder: the local one, whose lock this process holds.
    """

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self.token = uuid.uuid4().hex
        self._place = f"{socket.gethostname()}:{_boot()}:{folder}"
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lost(self) -> bool:
        """Whether another driver has taken the study over."""
        return self._lost.is_set()

    def wait_for_others(self, say: Callable[[str], None]) -> str | None:
        """Return as soon as nobody else is at work: the token of who was last, if anybody.

        Raises:
            StudyError: another driver is at work.
            StoreError: the store does not answer.
        """
        sign = self._read()
        # With the local folder's lock in hand, a sign of the same folder is a dead driver's.
        if sign and not sign["ended"] and sign["place"] != self._place:
            say(
                f"{self._store.address}: {sign['host']} has not ended its work there; "
                f"looking for up to {SILENT_S:.0f} s whether it is still at it"
            )
            sign = self._watched(sign)
        return sign["token"] if sign else None

    def sign(self) -> None:
        """Leave the sign that this driver is at work; raises StoreError."""
        self._sign()

    def keep(self, on_lost: Callable[[], None]) -> None:
        """Give a sign of life every 10 s from now on.

        Args:
            on_lost: called, once, if another driver has taken the study over.
        """

        def beat() -> None:
            wait = _SETTLE_S
            while not self._ended.wait(wait):
                wait = BEAT_S
                with contextlib.suppress(StoreError):  # it may answer again; copying tells
                    if self.check():
                        self._sign()
                    else:
                        on_lost()
                        return

        self._thread = threading.Thread(target=beat, name="sign of life", daemon=True)
        self._thread.start()

    def check(self) -> bool:
        """Whether the study is still this driver's."""
        sign = self._read()
        if sign is not None and sign["token"] != self.token:
            self._lost.set()
        return not self.lost

    def release(self, *, erase: bool = False) -> None:
        """Tell others that they need not wait; does nothing if the store does not answer.

        Args:
            erase: leave no sign at all.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with contextlib.suppress(StoreError):
            if self.check():
                self._store.remove(SIGN) if erase else self._sign(ended=True)

    def _watched(self, sign: dict[str, Any]) -> dict[str, Any] | None:
        """Watch by this machine's own clock, for those of two hosts may differ; the last sign."""
        until = time.monotonic() + SILENT_S
        while time.monotonic() < until:
            time.sleep(min(2.0, SILENT_S / 4))
            now = self._read()
            if now is None or now["ended"]:
                return now
            if now != sign:
                raise StudyError(
                    f"the study in {self._store.address} is being run by process {now['pid']} on "
                    f"{now['host']}; nothing was changed\n"
                    "  try: wait for it, or end it with Ctrl-C"
                )
        return sign

    def _sign(self, *, ended: bool = False) -> None:
        sign = {
            "token": self.token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "place": self._place,
            "at": datetime.now(UTC).isoformat(),
            "ended": ended,
        }
        self._store.write(SIGN, json.dumps(sign).encode())

    def _read(self) -> dict[str, Any] | None:
        content = self._store.read(SIGN)
        if content is None:
            return None
        try:
            sign = json.loads(content)
            return {key: sign[key] for key in ("token", "host", "pid", "place", "at", "ended")}
        except (ValueError, KeyError, TypeError):
            return None  # nobody's


def _boot() -> str:
    """Tells apart machines of the same name; another one after a restart."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(uuid.getnode())
