"""The learning curves with their bands, and the epochs at which they differ.

Bands are simultaneous: 95 % of them contain the whole true curve. Differences of curves are tested
by max-T, which flips the sign of a seed's whole curve at once; stars per epoch are never given.
"""

from __future__ import annotations

from itertools import combinations

import pandas as pd

from analysis.inputs import Metric, Plan
from analysis.inputs.results_table import Results
from analysis.statistics import pair, paired_interval, sign_flip
from analysis.statistics.curve_bands import MAX_T_EXACT, max_t, simultaneous_band
from analysis.verdicts import Scores

COST_METRICS = ("seconds", "views", "flops")
RUN = ["arm", "condition", "seed"]
MOST_PAIRS = 10  # pairs of arms whose curves are tested without a plan, per condition


def curves(results: Results, plan: Plan, arms: list[str], conditions: list[str]) -> list[dict]:
    """One entry per curve metric and condition: each arm's mean and band, each pair's max-T test.

    Only epochs that every run of an arm has are used; broken runs are not in the table.
    """
    metrics = [m for m in pd.unique(results.curves["metric"]) if m not in COST_METRICS]
    tested = _tested_metrics(plan, metrics)
    entries = []
    for metric in metrics:
        early = ends_early(results, metric)
        for condition in conditions:
            tables = {arm: curve_table(results, arm, condition, metric) for arm in arms}
            tables = {arm: table for arm, table in tables.items() if table is not None}
            if not tables:
                continue
            entries.append(
                {
                    "metric": metric,
                    "condition": condition,
                    "better": plan.meanings.direction(metric),
                    "unit": plan.meanings.unit(metric),
                    "x": "epoch",
                    "ends_early": early,
                    "arms": [_arm(arm, table) for arm, table in tables.items()],
                    "pairs": _pairs(tables, plan, condition, metric) if metric in tested else [],
                }
            )
    return entries


def curve_table(results: Results, arm: str, condition: str, metric: str) -> pd.DataFrame | None:
    """(n units, E epochs) of one arm's curve; epochs that a run lacks are left out."""
    frame = results.curves
    own = frame[
        (frame["arm"] == arm) & (frame["condition"] == condition) & (frame["metric"] == metric)
    ]
    if own.empty:
        return None
    table = own.pivot(index="seed", columns="epoch", values="value").dropna(axis=1)
    return table.groupby(results.unit_of).mean() if results.unit == "replicate" else table


def early_minus_late(scores: Scores, record: dict, metric: Metric, end: Metric) -> dict | None:
    """How much larger the difference is in the declared window than at the end.

    "Faster, not better" needs this above 0 besides the curve claim itself. Descriptive: it takes
    no part in the correction.

    Args:
        scores: of the table.
        record: of the claim's comparison.
        metric: of the claim, a window.
        end: what `last_figure` gives.
    """
    cells = [
        scores.of(record[arm], record["condition"], which)
        for which in (metric, end)
        for arm in ("a", "b")
    ]
    seeds = [s for s in record["seeds"] if all(s in cell for cell in cells)]
    early, late = (
        scores.by_unit({s: cells[i + 1][s] - cells[i][s] for s in seeds}) for i in (0, 2)
    )
    paired = pair(list(late.values()), list(early.values()))
    if paired.degenerate:
        return None
    low, high = paired_interval(paired)
    return {
        "last_epoch": end.window[1] if end.window else None,
        "mean_difference": float(paired.d.mean()),
        "ci_low": low,
        "ci_high": high,
        "p_value": sign_flip(paired.d_int)[0],
    }


def last_figure(results: Results, metric: str) -> Metric:
    """A metric at the end of the trainings.

    It is the curve at the last epoch that all runs have; of a curve of early epochs only, it is the
    final figure.
    """
    if ends_early(results, metric):
        return Metric(metric, metric)
    own = results.curves[results.curves["metric"] == metric]
    last = 0 if own.empty else int(own.groupby(RUN)["epoch"].max().min())
    return Metric(f"{metric}@{last}", metric, (last, last))


def ends_early(results: Results, metric: str) -> bool:
    """Whether a metric has a curve that ends before the trainings do, and a final figure beside it.

    Such are early windows on the test split. The other curves of a run tell its last epoch.
    """
    if not (results.final["metric"] == metric).any():
        return False
    curves_ = results.curves
    own = curves_[curves_["metric"] == metric].groupby(RUN)["epoch"].max()
    return bool((own < curves_.groupby(RUN)["epoch"].max().reindex(own.index)).any())


def _tested_metrics(plan: Plan, metrics: list[str]) -> list[str]:
    claimed = [c.metric.base for c in plan.claims if c.metric.window]
    return [m for m in metrics if m in claimed] or [
        m for m in metrics if m.startswith(("val", "test")) or len(metrics) == 1
    ]


def _arm(arm: str, table: pd.DataFrame) -> dict:
    values = table.to_numpy()
    low, high = simultaneous_band(values)
    return {
        "arm": arm,
        "n": len(values),
        "epochs": [float(e) for e in table.columns],
        "mean": [float(m) for m in values.mean(axis=0)] if values.size else [],
        "low": low,
        "high": high,
    }


def _pairs(tables: dict, plan: Plan, condition: str, metric: str) -> list[dict]:
    chosen = [
        (c.a, c.b)
        for c in plan.claims
        if c.metric.base == metric and c.metric.window and condition in c.conditions
    ]
    declared = bool(chosen)
    if not chosen and not any(c.metric.window for c in plan.claims):
        chosen = list(combinations(tables, 2))[:MOST_PAIRS]
    rows = []
    for a, b in dict.fromkeys(chosen):
        if a not in tables or b not in tables:
            continue
        seeds = tables[a].index.intersection(tables[b].index, sort=False)
        epochs = tables[a].columns.intersection(tables[b].columns)
        if len(seeds) < 3 or not len(epochs):
            continue
        d = (tables[b].loc[seeds, epochs] - tables[a].loc[seeds, epochs]).to_numpy().round(12)
        low, high = simultaneous_band(d)
        rows.append(
            {
                "a": a,
                "b": b,
                "declared": declared,
                "n": len(d),
                "epochs": [float(e) for e in epochs],
                "mean_difference": [float(x) for x in d.mean(axis=0)],
                "low": low,
                "high": high,
                "p_max_t": [float(p) for p in max_t(d)],
                "method": "exact" if len(d) <= MAX_T_EXACT else "monte_carlo",
            }
        )
    return rows
