"""A call in a process of its own, with bounds on its time and memory, and what became of it."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import resource
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

SECONDS, MEGABYTES = 5, 1000
LONGEST = 20_000  # characters of a message
_UNSHOWN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Outcome:
    """The exit code (None: killed at a bound), what was printed, and what it took."""

    code: int | None
    said: str
    seconds: float

    @property
    def wrong(self) -> str:
        """Why no user should see this; empty if all is well."""
        if self.code is None:
            return f"killed after {self.seconds:.1f} s: bounds are {SECONDS} s, {MEGABYTES} MB"
        if self.code not in (0, 2):
            return f"exit code {self.code}: {self.said[-1500:]}"
        if _UNSHOWN.search(self.said):
            return f"control characters reach the terminal: {self.said[:300]!a}"
        if len(self.said) > LONGEST:
            return f"a message of {len(self.said)} characters: {self.said[:300]!a}"
        if self.code == 2 and not self.said.strip():
            return "refused without a message"
        return ""


def bounded(function: Callable[[], int]) -> Outcome:
    """Call a function that prints and returns an exit code, in a fork of this process."""
    reader, writer = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(function, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read().decode("utf-8", "surrogatepass")
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(ended if ended >= 0 else None, said, time.monotonic() - started)


def _answer(function: Callable[[], int], writer: int) -> None:
    said, code = io.StringIO(), 99
    gc.disable()  # else the fork copies what it only looks through
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process
        signal.alarm(SECONDS)
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
        limit = pages * resource.getpagesize() + MEGABYTES * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = function()
    except BaseException:
        said.write(traceback.format_exc(limit=-6))
    with os.fdopen(writer, "wb") as stream:
        stream.write(said.getvalue().encode("utf-8", "surrogatepass"))
    os._exit(code)
