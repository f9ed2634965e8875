"""By which figures is a trial judged, and which way is each of them better?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from study.design.study import Search
from study.records.ledger import Ending

# What every record of a training has, or every evaluation: figures to be compared at its end.
QUALITIES = ("val/knn_top1",)  # accuracies: the higher, the better
COSTS = ("views", "flops", "seconds")  # of the whole training: the lower, the better

Judged = tuple[float, ...]


def direction(metric: str) -> Literal["maximize", "minimize"]:
    """Which way Optuna is to go."""
    return "minimize" if metric in COSTS else "maximize"


def judged(ending: Ending, search: Search) -> list[float] | None:
    """The figures of an ended training, one for each of the search's metrics.

    Accuracies are means over the last `smooth_epochs` evaluations, costs those of the whole
    training.

    Returns:
        None if one of them was not recorded or is not finite.
    """
    values = []
    for metric in search.metrics:
        recorded = [r.metrics[metric] for r in ending.records if metric in r.metrics and r.epoch]
        last = recorded[-1 if metric in COSTS else -search.smooth_epochs :]
        if not last:
            return None
        values.append(math.fsum(last) / len(last))
    return values if all(map(math.isfinite, values)) else None


def front(endings: Iterable[Ending], search: Search) -> list[tuple[Ending, Judged]]:
    """The Pareto front of an arm's finished trials: those that no other one dominates.

    A trial is dominated by one that is at least as good by every metric and better by one.

    Returns:
        endings with their figures, the best by the first metric first.
    """
    found = [
        (ending, tuple(values))
        for ending in endings
        if ending.outcome == "finished" and (values := judged(ending, search))
    ]
    signs = [-1 if direction(metric) == "minimize" else 1 for metric in search.metrics]
    gains = [tuple(s * v for s, v in zip(signs, values, strict=True)) for _, values in found]
    kept = [
        entry
        for entry, own in zip(found, gains, strict=True)
        if not any(g != own and all(map(float.__ge__, g, own)) for g in gains)
    ]
    return sorted(kept, key=lambda entry: (-entry[1][0], entry[0].job.number or 0))
