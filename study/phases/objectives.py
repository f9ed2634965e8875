"""Objectives: the figures by which a trial is judged, and which way each of them is better."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from study.design import Study
from study.records import Ending

Judged = tuple[float, ...]


def direction(study: Study, metric: str) -> Literal["maximize", "minimize"]:
    """Which way Optuna is to go."""
    return "minimize" if study.better(metric) == "lower" else "maximize"


def gain(study: Study, metric: str, value: float) -> float:
    """The value with the sign that makes larger better."""
    return -value if study.better(metric) == "lower" else value


def judged(ending: Ending, study: Study) -> list[float] | None:
    """The figures of an ended training, one for each of the search's metrics.

    Qualities are means over the last `smooth_epochs` evaluations, costs those of the whole
    training.

    Returns:
        None if one of them was not recorded or is not finite.
    """
    search = study.search
    assert search is not None
    values = []
    for metric in search.metrics:
        recorded = [r.metrics[metric] for r in ending.records if metric in r.metrics and r.epoch]
        cost = study.declared_metric(metric).kind == "cost"
        last = recorded[-1 if cost else -search.smooth_epochs :]
        if not last:
            return None
        values.append(math.fsum(last) / len(last))
    return values if all(map(math.isfinite, values)) else None


def front(endings: Iterable[Ending], study: Study) -> list[tuple[Ending, Judged]]:
    """The Pareto front of an arm's finished trials: those that no other one dominates.

    A trial is dominated by one that is at least as good by every metric and better by one.

    Returns:
        endings with their figures, the best by the first metric first.
    """
    found = [
        (ending, tuple(values))
        for ending in endings
        if ending.outcome == "finished" and (values := judged(ending, study))
    ]
    assert study.search is not None
    names = study.search.metrics
    gains = [
        tuple(gain(study, name, value) for name, value in zip(names, values, strict=True))
        for _, values in found
    ]
    kept = [
        entry
        for entry, own in zip(found, gains, strict=True)
        if not any(g != own and all(map(float.__ge__, g, own)) for g in gains)
    ]
    return sorted(
        kept, key=lambda entry: (-gain(study, names[0], entry[1][0]), entry[0].job.number or 0)
    )
