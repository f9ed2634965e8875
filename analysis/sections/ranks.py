"""The mean ranks of the arms: Friedman's test over seeds with Nemenyi's critical difference.

Secondary: they decide no claim.
"""

from __future__ import annotations

import numpy as np

from analysis.inputs import Metric, Metrics
from analysis.statistics.secondary_tests import friedman
from analysis.verdicts import Scores


def omnibus(
    scores: Scores,
    arms: list[str],
    conditions: list[str],
    metrics: list[str],
    meanings: Metrics,
    alpha: float,
) -> list[dict]:
    """One row per metric and condition with at least 3 arms on at least 3 common seeds."""
    rows = []
    for metric in metrics:
        for condition in conditions:
            cells = {
                arm: scores.by_unit(scores.of(arm, condition, Metric(metric, metric)))
                for arm in arms
            }
            cells = {arm: cell for arm, cell in cells.items() if cell}
            if len(cells) < 3:
                continue
            seeds = [s for s in next(iter(cells.values())) if all(s in c for c in cells.values())]
            if len(seeds) < 3:
                continue
            table = np.array([[float(cell[s]) for cell in cells.values()] for s in seeds])
            row = friedman(meanings.sign(metric) * table, list(cells), alpha)
            rows.append({"metric": metric, "condition": condition, **row})
    return rows
