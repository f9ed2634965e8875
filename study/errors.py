"""Errors that users see, and exit codes: what happened, where, what is allowed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

DONE, FAILED, WRONG_INPUT, TO_BE_CONTINUED, INTERRUPTED = 0, 1, 2, 75, 130

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """One mistake in the input, at a path of keys into the study file."""

    path: Path
    message: str
    allowed: str = ""
    remedy: str = ""


class StudyError(Exception):
    """The user's input or the state of the folder forbids this: exit code 2, no traceback."""


class Paused(Exception):
    """The study cannot continue as things are, but can be resumed: exit code 1, no traceback."""


class SpecError(StudyError):
    """All faults of a study file, each with its place; `str()` is what the user reads."""

    def __init__(self, faults: Iterable[Fault], located: Iterable[str]) -> None:
        self.faults = tuple(faults)
        parts = [
            "\n".join(
                [f"{place}: {fault.message}"]
                + [f"  allowed: {fault.allowed}"] * bool(fault.allowed)
                + [f"  try: {fault.remedy}"] * bool(fault.remedy)
            )
            for fault, place in zip(self.faults, located, strict=True)
        ]
        super().__init__("\n".join(parts))


def dotted(path: Path) -> str:
    """`('search', 'space', 'tau_plus')` as users write it: `search.space.tau_plus`."""
    return ".".join(str(part) for part in path)


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, if one is close."""
    found = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def listing(names: Iterable[object]) -> str:
    """Names for an `allowed:` line."""
    return ", ".join(str(name) for name in names)


_INVALID = "ValidationError: "


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def last_line(traceback: str) -> str:
    """The error that a traceback ends with; of pydantic's, whose last line is an address, all."""
    lines = [line.strip() for line in traceback.strip().splitlines()]
    lines = [line for line in lines if not line.startswith("For further information visit")]
    start = next((i for i in range(len(lines) - 1, -1, -1) if _INVALID in lines[i]), len(lines) - 1)
    return " ".join(lines[start:])[:300] or "unknown"
