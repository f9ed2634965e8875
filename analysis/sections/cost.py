"""What did accuracy cost, and how soon was it there?

Accuracy against device-seconds, views, FLOPs and epochs with the Pareto front, and the cost at
which a run first reached a threshold; runs that never did are censored, not dropped.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.inputs.metric import higher_is_better
from analysis.inputs.plan import Plan
from analysis.inputs.results_table import Results
from analysis.statistics.paired import describe
from analysis.statistics.survival import median_time

COSTS = ("seconds", "views", "flops")
UNITS = ("epochs", *COSTS)


def cost(
    results: Results, plan: Plan, shown: list[dict], runs: pd.DataFrame | None
) -> dict[str, list]:
    """`trade_off`: accuracy and cost per arm; `time_to`: cost to a threshold per arm."""
    return {
        "trade_off": trade_off(results, shown, runs),
        "time_to": time_to(results, plan),
    }


def trade_off(results: Results, shown: list[dict], runs: pd.DataFrame | None) -> list[dict]:
    """Per arm, condition and metric: the mean score, the mean cost of a run, and who is dominated.

    An arm is on the front where no other arm of the same condition scores at least as well for at
    most the same cost, one of them strictly better. That compares means: read the intervals too.
    """
    costs = _cost_per_run(results, runs)
    rows = []
    for row in shown:
        for unit, table in costs.items():
            values = table.get((row["arm"], row["condition"]))
            if values is None:
                continue
            spent = describe(values)
            rows.append(
                {
                    **{key: row[key] for key in ("arm", "condition", "metric", "n", "mean")},
                    "ci_low": row["ci_low"],
                    "ci_high": row["ci_high"],
                    "unit": unit,
                    "cost": spent["mean"],
                    "cost_ci_low": spent["ci_low"],
                    "cost_ci_high": spent["ci_high"],
                    "reason": None if spent["ci_low"] is not None else _why_not(values),
                }
            )
    for row in rows:
        sign = 1 if higher_is_better(row["metric"]) else -1
        rivals = [
            r
            for r in rows
            if r is not row and all(r[k] == row[k] for k in ("condition", "metric", "unit"))
        ]
        row["pareto"] = not any(
            sign * r["mean"] >= sign * row["mean"]
            and r["cost"] <= row["cost"]
            and (sign * r["mean"] > sign * row["mean"] or r["cost"] < row["cost"])
            for r in rivals
        )
    return rows


def time_to(results: Results, plan: Plan) -> list[dict]:
    """Median cost to a threshold per arm, by Kaplan and Meier, with its 95 % interval.

    The threshold is the lowest of the arms' mean scores at the end, so that the slowest arm gets
    there on average. It is read off the data: the rows are exploratory.
    """
    metric = _threshold_metric(results, plan)
    if metric is None:
        return []
    sign = 1 if higher_is_better(metric) else -1
    wide = _wide(results, metric)
    rows = []
    for condition, own in wide.groupby("condition", sort=False):
        ends = own.sort_values("epoch").groupby(["arm", "seed"], sort=False)["value"].last()
        threshold = sign * (sign * ends.groupby("arm", sort=False).mean()).min()
        for arm, runs_ in own.groupby("arm", sort=False):
            reached = runs_[sign * runs_["value"] >= sign * threshold]
            first = reached.sort_values("epoch").groupby("seed").first()
            last = runs_.sort_values("epoch").groupby("seed").last()
            for unit in UNITS:
                if runs_[unit].isna().all():
                    continue
                times = first[unit].reindex(last.index)
                seen = times.notna()
                rows.append(
                    {
                        "metric": metric,
                        "condition": condition,
                        "arm": arm,
                        "unit": unit,
                        "threshold": float(threshold),
                        "n": len(last),
                        "reached": int(seen.sum()),
                        **median_time(times.fillna(last[unit]).to_numpy(), seen.to_numpy()),
                    }
                )
    return rows


def _why_not(values: np.ndarray) -> str:
    return "one run" if len(values) < 2 else "the same in every run"


def _cost_per_run(results: Results, runs: pd.DataFrame | None) -> dict[str, dict]:
    """unit -> (arm, condition) -> cost of each run over its whole length."""
    curves = results.curves
    found: dict[str, dict] = {}
    for unit in COSTS:
        own = curves[curves["metric"] == unit].sort_values("epoch")
        if len(own):
            ends = own.groupby(["arm", "condition", "seed"], sort=False)["value"].last()
            found[unit] = {
                key: part.to_numpy() for key, part in ends.groupby(["arm", "condition"], sort=False)
            }
    if "seconds" not in found and runs is not None:
        done = runs[(runs["phase"] == "confirm") & (runs["status"] == "finished")]
        done = done[done["seconds"].notna()]
        if len(done):
            found["seconds"] = {
                (arm, condition or "default"): part["seconds"].to_numpy()
                for (arm, condition), part in done.groupby(["arm", "condition"])
            }
    return found


def _threshold_metric(results: Results, plan: Plan) -> str | None:
    claimed = [c.metric.base for c in plan.claims if c.metric.window]
    present = [m for m in pd.unique(results.curves["metric"]) if m not in COSTS]
    named = [m for m in claimed if m in present] + [m for m in present if m.startswith("val")]
    return (named or [m for m in present if higher_is_better(m)] or [None])[0]


def _wide(results: Results, metric: str) -> pd.DataFrame:
    """One row per run and epoch: value, epochs, and cumulative costs where known."""
    key = ["arm", "condition", "seed", "epoch"]
    curves = results.curves
    wide = curves.loc[curves["metric"] == metric, [*key, "value"]].assign(
        epochs=lambda f: f["epoch"]
    )
    for unit in COSTS:
        own = curves.loc[curves["metric"] == unit, [*key, "value"]]
        wide = wide.merge(own.rename(columns={"value": unit}), on=key, how="left")
        # Before the first epoch nothing has been spent.
        wide.loc[(wide["epoch"] == 0) & wide[unit].isna() & (len(own) > 0), unit] = 0.0
    return wide
