"""How does a command end when the reader of its output leaves early, as `head -1` does?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell says of any command that ended this way


def run(main: Callable[[], int]) -> int:
    """The exit code of a command; one whose pipe is closed ends without a word.

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
