"""The metrics section: which metrics are reported and compared, their directions and units."""

from __future__ import annotations

import pandas as pd

from analysis.inputs import Plan
from analysis.inputs.results_table import Results
from analysis.verdicts import CONTROLS


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
