"""The error raised for a user's table or plan."""

from __future__ import annotations


class TableError(ValueError):
    """A table that cannot be analysed: what, where, what is allowed, what to do."""

    def __init__(self, what: str, *, where: str, allowed: str, try_: str):
        super().__init__(f"{where}: {what}\n  allowed: {allowed}\n  try: {try_}")
