"""The search section: its trials, its winners, and how much of the best score was luck.

Kept apart from the verdicts: the best of K trials is optimistic, so nothing here is a result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.inputs import Metrics, Plan
from analysis.inputs.replicates import in_order
from analysis.inputs.results_table import Results
from analysis.statistics import describe
from analysis.statistics.expected_best import expected_best, expected_best_biased

SEARCH_METRIC = "val/knn_top1"
NO_IMPORTANCE = {
    "settings": [],
    "reason": "Optuna computes it from the trials' records, which are in a study's folder and in"
    " no table; python -m study.report NAME has it",
}


def search(
    runs: pd.DataFrame | None, results: Results, plan: Plan, importance: Mapping[str, Any] | None
) -> list[dict]:
    """One mapping per arm that was searched; empty without a search.

    `importance` is passed on, by arm: it needs the trials' records, which no table has.
    """
    if runs is None or not (runs["phase"] == "search").any():
        return []
    metric = next(iter(plan.search_metrics), SEARCH_METRIC)
    condition = plan.search_condition
    trials = runs[runs["phase"] == "search"]
    return [
        _arm(arm, own, metric, condition, results, plan.meanings)
        | {"importance": (importance or {}).get(arm, NO_IMPORTANCE)}
        for arm, own in trials.groupby("arm", sort=False)
    ]


def _arm(arm, own, metric, condition, results, meanings: Metrics) -> dict:
    higher = meanings.sign(metric) > 0
    trials = [_trial(row) for row in own.to_dict("records")]
    done = [t for t in trials if t["status"] == "finished" and t["value"] is not None]
    values = np.array([t["value"] for t in done])
    best = (max if higher else min)(done, key=lambda t: t["value"]) if done else None
    unrun = own[own["status"] == "stopped"]
    return {
        "arm": arm,
        "metric": metric,
        "better": meanings.direction(metric),
        "unit": meanings.unit(metric),
        "trials": trials,
        "complete": len(done),
        "expected_best": [float(v) for v in expected_best(values, higher=higher)] if done else [],
        "expected_best_biased": (
            [float(v) for v in expected_best_biased(values, higher=higher)] if done else []
        ),
        "best": best,
        "winners": _winners(done, higher),
        "early_stopping": _saved(unrun, own),
        "winners_curse": _winners_curse(_winners(done, higher), arm, metric, condition, results),
    }


def _trial(row: dict) -> dict:
    try:
        config = json.loads(row["config"]) if row["config"] else {}
    except ValueError:
        config = {}
    value = row["value"]
    replicate = row["replicate"]
    return {
        "replicate": None if pd.isna(replicate) else replicate,
        "trial": None if pd.isna(row["trial"]) else int(row["trial"]),
        "status": row["status"],
        "epochs": None if pd.isna(row["epochs"]) else float(row["epochs"]),
        "value": None if pd.isna(value) else float(value),
        "config": config if isinstance(config, dict) else {},
        "mlflow_run_id": row["mlflow_run_id"] or None,
    }


def _winners(done: list[dict], higher: bool) -> list[dict]:
    """The best complete trial of each replicate, in their order; one where there are none."""
    by_replicate: dict[object, list[dict]] = {}
    for trial in done:
        by_replicate.setdefault(trial["replicate"], []).append(trial)
    best = max if higher else min
    return [best(by_replicate[r], key=lambda t: t["value"]) for r in in_order(by_replicate)]


def _saved(stopped: pd.DataFrame, own: pd.DataFrame) -> dict:
    """Epochs and device-seconds that early stopping left unspent, at each trial's own pace."""
    left = (stopped["planned_epochs"] - stopped["epochs"]).clip(lower=0)
    pace = stopped["seconds"] / stopped["epochs"].where(stopped["epochs"] > 0)
    planned = float(own["planned_epochs"].sum())
    return {
        "stopped": len(stopped),
        "epochs": float(left.sum()),
        "seconds": float((left * pace).sum()),
        "share_of_planned_epochs": float(left.sum()) / planned if planned > 0 else None,
    }


def _winners_curse(winners, arm, metric, condition, results: Results) -> dict | None:
    """Search best minus the confirmed mean of the same validation metric at the last epoch.

    Over replicates it is the mean of each winner's own, with its interval.
    """
    curves = results.curves
    own = curves[(curves["arm"] == arm) & (curves["metric"] == metric)]
    if condition is not None and (own["condition"] == condition).any():
        own = own[own["condition"] == condition]
    if not winners or own.empty or own["condition"].nunique() > 1:
        return None
    ends = own.sort_values("epoch").groupby("seed")["value"].last()
    if results.unit == "replicate":
        best = {w["replicate"]: w["value"] for w in winners}
        ends = ends.groupby(results.unit_of).mean()
        ends = ends[ends.index.isin(list(best))]
        search_best = np.array([best[unit] for unit in ends.index])
    else:
        search_best = np.full(len(ends), winners[0]["value"])
    if not len(ends):
        return None
    lost = describe(search_best - ends.to_numpy())
    return {
        "condition": own["condition"].iloc[0],
        "search_best": float(search_best.mean()),
        "confirmed_mean": float(ends.mean()),
        "n": lost["n"],
        "difference": lost["mean"],
        "ci_low": lost["ci_low"],
        "ci_high": lost["ci_high"],
    }
