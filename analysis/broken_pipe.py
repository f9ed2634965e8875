"""What a command prints, into a pipe that closes, a full disk, or a terminal without Unicode."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

FAILED = 1
SIGNS = {
    "×": "x", "÷": "/", "−": "-", "–": "-", "—": "-", "±": "+/-", "·": "-", "…": "...", "≥": ">=",
    "≤": "<=", "≠": "!=", "≈": "~", "→": "->", "τ": "tau", "β": "beta", "η": "eta", "α": "alpha",
    "σ": "sd", "Δ": "delta", "⁺": "+", "⁻": "-", "²": "^2", "’": "'", "‘": "'", "“": '"', "”": '"',
    "\u00a0": " ", "\u202f": " ", "\u2009": " ",
}  # fmt: skip
PIPE_CLOSED = 141  # 128 + SIGPIPE, a shell's exit code for such a command


def run(main: Callable[[], int]) -> int:
    """The exit code of a command, whatever becomes of what it prints.

    One whose pipe is closed ends silently, as `head -1` expects. Where the output cannot be
    written, the exit code is 1. Signs that the terminal does not have become ASCII.

    Args:
        main: prints, and returns the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="ascii-signs")
    code = 0
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None or _is_writable():
            raise  # a file's error, not the output's
        _drop_output()
        print(f"the output cannot be written: {error.strerror}", file=sys.stderr)
        return code or FAILED
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        raise
    return code


class Stream:
    """A stream that is another one in all that it does not do itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def printing_to(kind: Callable[[TextIO], Any]) -> Iterator[None]:
    """Let what the block prints, and the libraries in it, go through streams of a kind."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (kind(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def outliving_readers() -> Iterator[None]:
    """Let the block go on when nobody reads, or nothing takes, what it prints any more."""
    with printing_to(_Outliving):
        try:
            yield
        finally:
            sys.stdout.flush()


class _Outliving(Stream):
    """A stream whose pipe may close and whose disk may be full."""

    def write(self, text: str) -> int:
        with self._dropped_if_lost():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._dropped_if_lost():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropped_if_lost(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _is_writable() -> bool:
    try:
        return os.write(sys.stdout.fileno(), b"\n") == 1
    except (OSError, ValueError):
        return False


def _drop_output() -> None:
    # Python flushes once more at its end, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ascii_signs(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that an encoding does not have; `\\N` escapes for the rest."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    escaped = (SIGNS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text)
    return "".join(escaped), error.end


codecs.register_error("ascii-signs", _ascii_signs)
