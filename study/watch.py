"""Is what this process waits for still there? It may be blocked where it cannot look itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 5.0
PATIENCE_S = 10.0


@contextmanager
def watching(alive: Callable[[], bool], otherwise: Exception) -> Iterator[None]:
    """Interrupt the block, and raise `otherwise`, once `alive` says no.

    A thread asks; the main thread is woken by the signal of Ctrl-C, which the program turns into
    KeyboardInterrupt. Some calls hear no signal: then the process ends where it stands, with exit
    code 1. It loses nothing, since all that counts is on disk before it counts.

    Args:
        alive: called every few seconds, in a thread; an error counts as no.
        otherwise: what the caller is to hear in place of the interruption.
    """
    ended, died = threading.Event(), threading.Event()

    def ask() -> None:
        while not ended.wait(EVERY_S):
            if not _holds(alive):
                died.set()
                if not ended.is_set():
                    os.kill(os.getpid(), signal.SIGINT)
                if not ended.wait(PATIENCE_S):
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


def _holds(alive: Callable[[], bool]) -> bool:
    try:
        return alive()
    except Exception:
        return False


def _end(reason: Exception) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a live display hides the cursor
    print(f"\nthe study pauses: {reason}", file=sys.stderr, flush=True)
    os._exit(1)
