"""Is what this process waits for still there? It may be blocked where it cannot look itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 5.0
ERRORS = 3  # in a row; a single one may be a call that was lost, or a head that is busy
PATIENCE_S = 10.0


@contextmanager
def watching(alive: Callable[[], bool], otherwise: Exception) -> Iterator[None]:
    """Interrupt the block, and raise `otherwise`, once `alive` says no.

    A thread asks; the main thread is woken by the signal of Ctrl-C, which the program turns into
    KeyboardInterrupt. Some calls hear no signal: then the process ends where it stands, with exit
    code 1. It loses nothing, since all that counts is on disk before it counts.

    Args:
        alive: called every few seconds, in a thread. One no is enough, since a node that Ray has
            marked dead never comes back; of errors it takes three in a row.
        otherwise: what the caller is to hear in place of the interruption.
    """
    ended, died = threading.Event(), threading.Event()

    def ask() -> None:
        errors = 0
        while not ended.wait(EVERY_S):
            answer = _answer(alive)
            errors = errors + 1 if answer is None else 0
            if answer is False or errors >= ERRORS:
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
