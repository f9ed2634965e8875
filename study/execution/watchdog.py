"""The watchdog: whether what this process waits for is still there, and how long it waits.

`watching` interrupts a wait for a Ray that has died; `Patience` finds trainings that hang;
`Stopping` lets those of a study that is to end save their state first.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

EVERY_S = 3.0
ERRORS = 3  # in a row; a single one may be a call that was lost, or a head that is busy
END_AFTER_S = 10.0

# A training is given up after so many times what is known to be long, of itself and its arm or of
# other arms, and a minute.
OF_ITS_OWN, OF_OTHERS, AT_LEAST_S = 3, 10, 60.0
_LONGEST_STEP_S = 2.0
STOP_WITHIN_S = 20.0  # whoever has not reported by then loses what was done since its last save

Stage = Literal["first", "epochs", "closing"]


@contextmanager
def watching(
    alive: Callable[[], bool], otherwise: Exception, *, own_process: bool = True
) -> Iterator[None]:
    """Interrupt the block, and raise `otherwise`, once `alive` says no.

    A thread asks. A block in the main thread is woken by the signal of Ctrl-C, which Python turns
    into KeyboardInterrupt; one in another thread by an exception that Python raises there. Some
    calls hear neither: then the process ends where it stands, with exit code 1, if it may. It loses
    nothing, since all that counts is on disk before it counts.

    Args:
        alive: called every few seconds, in a thread. One no is enough, since a node that Ray has
            marked dead never comes back; of errors it takes three in a row.
        otherwise: raised in place of the interruption.
        own_process: whether the process may be ended.
    """
    ended, died = threading.Event(), threading.Event()
    waiting = threading.current_thread()

    def ask() -> None:
        errors = 0
        while not ended.wait(EVERY_S):
            answer = _answer(alive)
            errors = errors + 1 if answer is None else 0
            if answer is False or errors >= ERRORS:
                died.set()
                if not ended.is_set():
                    _interrupt(waiting)
                if not ended.wait(END_AFTER_S) and own_process:
                    _end(otherwise)
                return

    thread = threading.Thread(target=ask, name="watch", daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        if died.is_set():
            raise otherwise from None
        raise
    finally:
        ended.set()


@dataclass
class Stopping:
    """From whoever asks the study to stop, a signal's handler, to the loop that hears of trainings.

    Attributes:
        asked: whether the study is to stop.
        heeded: whether a loop is under way that raises KeyboardInterrupt soon after it was asked.
    """

    asked: bool = False
    heeded: bool = False

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """A block that ends soon after it was asked.

        Raises:
            KeyboardInterrupt: it was asked.
        """
        self.heeded = True
        try:
            yield
        finally:
            self.heeded = False
        if self.asked:
            raise KeyboardInterrupt


def _interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread."""
    if thread is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)
    elif thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
        )


def _answer(alive: Callable[[], bool]) -> bool | None:
    try:
        return alive()
    except Exception:
        return None


def _end(reason: Exception) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a live display hides the cursor
    print(f"\nthe study pauses: {reason}", file=sys.stderr, flush=True)
    os._exit(1)


@dataclass
class _Waiting:
    """A training that is under way."""

    arm: str
    phase: str
    planned: int | None
    since: float
    stage: Stage = "first"
    longest: float = 0.0  # between two of its reports
    given_up: int = 0


@dataclass
class Patience:
    """How long trainings may be silent, by what they and others took before.

    Three times the longest time between two of its own reports, and a minute; before its first one
    and after its last epoch but one, when it evaluates, three times what others of its arm took, or
    ten times what those of other arms did, and a minute; without a limit as long as none has come
    so far. Twice as long after each time that it was given
    up: whoever shares the machine may have slowed it down.

    Its clock goes only while `tick` is called: while the loop that hears of reports stands still,
    none can be heard.

    Args:
        seconds: a limit for all of them instead; "none" for no limit.
    """

    seconds: float | Literal["auto", "none"] = "auto"
    _now: float = 0.0
    _ticked: float = field(default_factory=lambda: time.monotonic())
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _taken: dict[tuple[str, ...], float] = field(default_factory=dict)

    def tick(self) -> None:
        """Let the clock go on."""
        now = time.monotonic()
        self._now += min(now - self._ticked, _LONGEST_STEP_S)
        self._ticked = now

    def started(self, trial: str, arm: str, phase: str, planned: int | None) -> None:
        """A training of an arm begins, with so many epochs if that is known."""
        self._waiting[trial] = _Waiting(arm, phase, planned, self._now)

    def heard(self, trial: str, epoch: int, *, ended: bool) -> None:
        """It has reported up to an epoch, and has ended or not."""
        found = self._waiting.get(trial)
        if found is None:  # has said so before
            return
        gap, found.since = self._now - found.since, self._now
        for known in (_kind(found), (*_kind(found), found.arm)):
            self._taken[known] = max(gap, self._taken.get(known, 0.0))
        if found.stage == "epochs":
            found.longest = max(gap, found.longest)
        if ended:
            del self._waiting[trial]
        else:
            # Of a training without a planned end any epoch may be the last one.
            last = found.planned is None or epoch >= found.planned - 1
            found.stage = "closing" if last else "epochs"

    def ended(self, trial: str) -> None:
        """It has ended, whether it has said so or not."""
        self._waiting.pop(trial, None)

    def overdue(self) -> list[tuple[str, float]]:
        """The trainings that are to be given up, each with its seconds of silence."""
        found = []
        for trial, waiting in self._waiting.items():
            silent, limit = self._now - waiting.since, self._limit(waiting)
            if limit is not None and silent > limit:
                found.append((trial, silent))
                waiting.since, waiting.stage = self._now, "first"
                waiting.given_up += 1
        return found

    def _limit(self, waiting: _Waiting) -> float | None:
        if self.seconds == "none":
            return None
        if self.seconds != "auto":
            return self.seconds * 2**waiting.given_up
        if waiting.stage == "epochs" and waiting.longest:
            limit = OF_ITS_OWN * waiting.longest
        else:
            alike = self._taken.get((*_kind(waiting), waiting.arm))
            taken = self._taken.get(_kind(waiting)) if alike is None else alike
            if taken is None:
                return None
            times = OF_OTHERS if alike is None else OF_ITS_OWN
            limit = times * max(taken, waiting.longest)
        return (limit + AT_LEAST_S) * 2**waiting.given_up


def _kind(waiting: _Waiting) -> tuple[str, ...]:
    """What takes about as long: the test split is read at the end of the confirmation's only."""
    return waiting.stage, waiting.phase if waiting.stage == "closing" else ""
