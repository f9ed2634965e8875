"""The error raised for a user's table or plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TableError(ValueError):
    """A table that cannot be analysed: what, where, what is allowed, what to do."""

    def __init__(self, what: str, *, where: str, allowed: str, try_: str):
        super().__init__(f"{where}: {what}\n  allowed: {allowed}\n  try: {try_}")


def nearest(name: object, known: Iterable[object], *, alike: float = 0.5) -> str | None:
    """The known name that `name` was probably meant to be, if one is close.

    Args:
        name: as given; `known`: what is allowed.
        alike: share of letters in common, from 0 to 1, below which nothing is suggested.

    Example:
        >>> nearest("suported", ["supported", "refuted"])
        'supported'
    """
    names = [str(one) for one in known]
    return next(iter(difflib.get_close_matches(str(name), names, 1, alike)), None)
