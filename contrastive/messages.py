"""Wording shared by messages: the nearest known name, and what an error says and where."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if any is alike.

    Example:
        >>> nearest("debiased_pso", ["contrastive", "debiased_pos"])
        'debiased_pos'
    """
    return next(iter(difflib.get_close_matches(str(name), list(known), n=1)), None)


def first_line(error: BaseException | str) -> str:
    """The first line of an error's text; of an error without text, its type.

    Example:
        >>> first_line(ValueError("too small\\n  allowed: 2")), first_line(KeyError())
        ('too small', 'KeyError')
    """
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def with_place(error: BaseException, file: str | None) -> str:
    """`TypeError: unexpected argument (my_losses.py:12)`: what went wrong, and where.

    Args:
        error: that was raised.
        file: of the code that is to be mended; its innermost line is named, else the last one.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename == file] or frames
    where = f" ({Path(theirs[-1].filename).name}:{theirs[-1].lineno})" if theirs else ""
    last = str(error).strip().splitlines()[-1:] or ["no reason given"]
    return f"{type(error).__name__}: {last[0]}{where}"
