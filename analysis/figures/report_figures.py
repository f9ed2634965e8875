"""All figures of a report, in reading order; its numbers are drawn, none is computed.

Every figure is a function of the report mapping and returns a Drawing, or None where the report
has nothing for it.
"""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

from analysis.figures.comparisons import forest
from analysis.figures.cost import trade_off
from analysis.figures.curves import advantage, learning
from analysis.figures.embedding import embedding
from analysis.figures.ledger import ledger
from analysis.figures.scores import estimates, ranks
from analysis.figures.search import expected_best, parallel, slices, winners
from analysis.figures.style import RC, Drawing

MOST_METRICS = 4


def draw(report: dict[str, Any]) -> list[Drawing]:
    """All figures of a report, in reading order."""
    with mpl.rc_context(RC):
        drawings = [forest(report)]
        drawings += [estimates(report, metric) for metric in report["metrics"][:MOST_METRICS]]
        drawings += [
            embedding(report),
            learning(report),
            advantage(report),
            ranks(report),
            trade_off(report),
        ]
        drawings += [ledger(report), expected_best(report), winners(report)]
        drawings += [slices(report), parallel(report)]
    return [drawing for drawing in drawings if drawing is not None]
