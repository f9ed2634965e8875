"""Cells of CSV files that a spreadsheet takes for text, whatever they begin with."""

from __future__ import annotations

from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(cell: Any) -> Any:
    """A text that a spreadsheet would run as a formula, behind an apostrophe; numbers as they are.

    Example:
        >>> inert("=HYPERLINK(1)"), inert("-0.5"), inert(-0.5)
        ("'=HYPERLINK(1)", '-0.5', -0.5)
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell
