"""The score section: which metrics are shown, each arm's scores, whether training helped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.inputs import Metric, Metrics, Plan
from analysis.inputs.results_table import Results
from analysis.statistics import describe, pair, paired_interval
from analysis.verdicts import CONTROLS, Scores


def with_finals(results: Results) -> tuple[Results, list[str]]:
    """Final figures for a table of curves: the last epoch that all runs have, never the best."""
    if len(results.final) or not len(results.curves):
        return results, []
    curves_ = results.curves
    last = curves_.groupby(["arm", "condition", "seed", "metric"])["epoch"].max().min()
    finals = curves_[curves_["epoch"] == last].assign(epoch=np.nan)
    frame = pd.concat([results.frame, finals], ignore_index=True)
    note = f"The table has no final figures; the last epoch that all runs have ({last:g}) is used."
    return replace(results, frame=frame), [note]


def ordered(present: list[str], declared: tuple[str, ...]) -> list[str]:
    return [d for d in declared if d in present] + [p for p in present if p not in declared]


def arm_scores(scores: Scores, arms, conditions, metrics, meanings: Metrics) -> list[dict]:
    """One row per metric, condition and arm that has scores."""
    rows = []
    for metric in metrics:
        for condition in conditions:
            for arm in arms:
                values = scores.of(arm, condition, Metric(metric, metric))
                if not values:
                    continue
                row = {"arm": arm, "condition": condition, "metric": metric}
                row |= {"better": meanings.direction(metric), "unit": meanings.unit(metric)}
                row |= describe(list(scores.by_unit(values).values()))
                row["unit_of_analysis"] = scores.unit
                row["reason"] = _why_not(row, scores.unit)
                row["seeds"] = list(values)
                row["values"] = [float(v) for v in values.values()]
                rows.append(row)
    return rows


def _why_not(row: dict, unit: str) -> str | None:
    """Why an arm has no interval or, if it has one, no IQM."""
    if row["ci_low"] is None:
        return f"one {unit}" if row["n"] < 2 else "constant values"
    return f"no IQM below 4 {unit}s" if row["iqm"] is None else None


TRAINED = Metric("test/knn_top1", "test/knn_top1")
UNTRAINED = Metric("test/untrained_knn_top1", "test/untrained_knn_top1")


def training_helps(
    scores: Scores, arms: list[str], conditions: list[str], meanings: Metrics
) -> list[dict]:
    """Trained minus untrained kNN accuracy per arm and condition, paired by seed."""
    rows = []
    for arm in arms:
        for condition in conditions:
            cells = [scores.of(arm, condition, m) for m in (TRAINED, UNTRAINED)]
            both = [seed for seed in cells[0] if seed in cells[1]]
            after, before = (scores.by_unit({s: cell[s] for s in both}) for cell in cells)
            seeds = list(after)
            if not seeds:
                continue
            paired = pair([before[s] for s in seeds], [after[s] for s in seeds])
            interval = paired_interval(paired)
            rows.append(
                {
                    "arm": arm,
                    "condition": condition,
                    "metric": TRAINED.text,
                    "unit": meanings.unit(TRAINED.text),
                    "n": paired.n,
                    "trained": float(paired.b.mean()),
                    "untrained": float(paired.a.mean()),
                    "mean_difference": float(paired.d.mean()),
                    "ci_low": interval[0] if interval else None,
                    "ci_high": interval[1] if interval else None,
                    "reason": paired.degenerate,
                }
            )
    return rows


def reported_metrics(results: Results, plan: Plan) -> list[str]:
    """The final metrics that the report shows: the plan's, else all but controls."""
    present = list(pd.unique(results.final["metric"]))
    if plan.metrics:
        return [m for m in plan.metrics if m in present] or list(plan.metrics)
    return [m for m in present if m not in CONTROLS]


def compared_metrics(reported: list[str], plan: Plan, where: str) -> tuple[list[str], list[str]]:
    """Of the reported metrics those whose direction is known, and a note on the others, if any.

    Raises:
        TableError: a direction is not known, and no claim was declared: every metric matters then.
    """
    if not plan.claims:
        plan.meanings.require(reported, where=where)
    known = [m for m in reported if plan.meanings.direction(m) is not None]
    left = [m for m in reported if m not in known]
    note = (
        f"Not compared: {', '.join(left)}; it is not known whether higher or lower is better."
        f" Declare it under `metrics:`, or pass --better {left[0]}=higher (or =lower)."
        if left
        else None
    )
    return known, [note] if note else []


def metrics_section(plan: Plan, shown: list[dict], compared: list[dict]) -> list[dict]:
    """Each metric with direction, unit and where the direction comes from; claimed ones first.

    Base metrics of claimed windows, which have no final figure of their own, come last.
    """
    present = list(dict.fromkeys(row["metric"] for row in shown))
    claimed = [c["metric"] for c in compared if c["declared"]]
    order = [*(m for m in claimed if m in present), *present]
    order += [claim.metric.base for claim in plan.claims]
    rows = []
    for metric in dict.fromkeys(order):
        meaning = plan.meanings.of(metric)
        rows.append(
            {
                "metric": metric,
                "better": meaning.better,
                "unit": meaning.unit,
                "source": meaning.source,
            }
        )
    return rows
