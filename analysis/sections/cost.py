"""The cost section: accuracy against cost, and the cost of reaching a threshold.

Accuracy against device-seconds, views, FLOPs and epochs with the Pareto front, and the cost at
which a run first reached a threshold; runs that never did are censored, not dropped.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd

from analysis.inputs import Metrics, Plan
from analysis.inputs.results_table import Results
from analysis.sections.curves import ends_early
from analysis.statistics import describe, median_time

COSTS = ("seconds", "views", "flops")
ALIKE = 0.05  # means of costs that differ by less are alike
UNITS = ("epochs", *COSTS)
KEPT = ("arm", "condition", "metric", "better", "unit", "n", "mean", "ci_low", "ci_high")


def cost(
    results: Results, plan: Plan, shown: list[dict], runs: pd.DataFrame | None
) -> dict[str, list]:
    """`trade_off`: score and cost per arm; `time_to`: cost to a threshold per arm.

    `metric` is the one that is shown where there is room for one: the first that was claimed.
    `differs` is the unit of cost by which arms differ, None where all cost the same.
    """
    rows = trade_off(results, shown, runs, plan.meanings)
    present = [row["metric"] for row in rows]
    claimed = [claim.metric.text for claim in plan.claims if claim.metric.text in present]
    metric = next(iter([*claimed, *present]), None)
    return {
        "metric": metric,
        "differs": _differing([row for row in rows if row["metric"] == metric]),
        "trade_off": rows,
        "time_to": time_to(results, plan),
    }


def trade_off(
    results: Results, shown: list[dict], runs: pd.DataFrame | None, meanings: Metrics
) -> list[dict]:
    """Per arm, condition and metric: the mean score, the mean cost of a run, and who is dominated.

    An arm is on the front where no other arm of the same condition scores at least as well for at
    most the same cost, one of them strictly better. That compares means: read the intervals too.
    Metrics without a direction have no front and are left out.
    """
    costs = _cost_per_run(results, runs)
    rows = []
    for row in shown:
        if row["better"] is None:
            continue
        for unit, table in costs.items():
            values = table.get((row["arm"], row["condition"]))
            if values is None:
                continue
            spent = describe(values)
            rows.append(
                {
                    **{key: row[key] for key in KEPT},
                    "cost_unit": unit,
                    "cost": spent["mean"],
                    "cost_ci_low": spent["ci_low"],
                    "cost_ci_high": spent["ci_high"],
                    "reason": None if spent["ci_low"] is not None else _why_not(values),
                }
            )
    for row in rows:
        sign = meanings.sign(row["metric"])
        rivals = [
            r
            for r in rows
            if r is not row and all(r[k] == row[k] for k in ("condition", "metric", "cost_unit"))
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
    sign = plan.meanings.sign(metric)
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
                        "unit": plan.meanings.unit(metric),
                        "cost_unit": unit,
                        "threshold": float(threshold),
                        "n": len(last),
                        "reached": int(seen.sum()),
                        **median_time(times.fillna(last[unit]).to_numpy(), seen.to_numpy()),
                    }
                )
    return rows


def _differing(rows: list[dict]) -> str | None:
    """The unit in which two arms differ under one condition by more than noise, if there is one.

    Their intervals lie apart; a cost that is the same in every run is a point. Seconds come last:
    they depend on what else the machine did.
    """
    for unit in ("views", "flops", "seconds"):
        own = [r for r in rows if r["cost_unit"] == unit]
        for less, more in permutations(own, 2):
            high = less["cost"] if less["cost_ci_high"] is None else less["cost_ci_high"]
            low = more["cost"] if more["cost_ci_low"] is None else more["cost_ci_low"]
            apart = high < low and more["cost"] > (1 + ALIKE) * less["cost"]
            if apart and less["condition"] == more["condition"]:
                return unit
    return None


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
    better = {m: plan.meanings.direction(m) for m in pd.unique(results.curves["metric"])}
    present = [m for m in better if better[m] and m not in COSTS and not ends_early(results, m)]
    named = [m for m in claimed if m in present] + [m for m in present if m.startswith("val")]
    return (named or [m for m in present if better[m] == "higher"] or [None])[0]


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
