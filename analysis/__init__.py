"""Verdicts on which method is better, by how much, and whether the contest was fair.

    from analysis import analyse
    report = analyse("results.csv", claims=[{"better": "b", "than": "a", "metric": "test/top1"}])

The package reads one tidy table of results and answers claims with verdicts. It knows nothing of
how the results were made: the table may come from anywhere. docs/statistics.md is the protocol.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.errors import TableError
    from analysis.rendering import ClaimAnswer, Report
    from analysis.report import analyse, write_report

__version__ = "0.1.0"
__all__ = ["ClaimAnswer", "Report", "TableError", "analyse", "write_report"]


_HOMES = {
    "ClaimAnswer": "analysis.rendering",
    "Report": "analysis.rendering",
    "TableError": "analysis.errors",
    "analyse": "analysis.report",
    "write_report": "analysis.report",
}


def __getattr__(name: str) -> Any:
    """Public names on first use: pandas and matplotlib take two seconds to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
