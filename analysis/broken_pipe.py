"""The quiet end of a command whose reader leaves early, as `head -1` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

PIPE_CLOSED = 141  # 128 + SIGPIPE, a shell's exit code for such a command


def run(main: Callable[[], int]) -> int:
    """The exit code of a command; one whose pipe is closed ends silently.

    Args:
        main: prints, and returns the exit code.
    """
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
