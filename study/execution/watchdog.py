"""The watchdog: looks whether what this process waits for is still there, and interrupts it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 3.0
ERRORS = 3  # in a row; a single one may be a call that was lost, or a head that is busy
END_AFTER_S = 10.0


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
