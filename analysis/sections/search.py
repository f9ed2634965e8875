"""The search section: its trials, its winners, and how much of the best score was luck.

Kept apart from the verdicts: the best of K trials is optimistic, so nothing here is a result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.inputs import Plan
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
    return [
        _arm(arm, own, results, plan) | {"importance": (importance or {}).get(arm, NO_IMPORTANCE)}
        for arm, own in runs.groupby("arm", sort=False)
        if (own["phase"] == "search").any()
    ]


def _arm(arm: str, own: pd.DataFrame, results: Results, plan: Plan) -> dict:
    metric = next(iter(plan.search_metrics), SEARCH_METRIC)
    sign = plan.meanings.sign(metric)
    planned = own[own["phase"] == "search"]
    trials = [_trial(row) for row in planned.to_dict("records")]
    settings = _add_drawn(trials, plan)
    done = [t for t in trials if t["status"] == "finished" and t["value"] is not None]
    _add_scores(done, own)
    values = np.array([t["value"] for t in done])
    winners = _winners(done, own, sign)
    confirmed = _confirmed(arm, metric, plan.search_condition, results)
    return {
        "arm": arm,
        "metric": metric,
        "better": plan.meanings.direction(metric),
        "unit": plan.meanings.unit(metric),
        "settings": settings,
        "trials": trials,
        "complete": len(done),
        "expected_best": [float(v) for v in expected_best(values, higher=sign > 0)] if done else [],
        "expected_best_biased": (
            [float(v) for v in expected_best_biased(values, higher=sign > 0)] if done else []
        ),
        "best": max(done, key=lambda t: sign * t["value"], default=None),
        "winners": winners,
        "ties": _add_ties(winners, done, confirmed, sign),
        "early_stopping": _saved(planned[planned["status"] == "stopped"], planned),
        "winners_curse": _winners_curse(winners, confirmed),
    }


def _trial(row: dict) -> dict:
    value, replicate = row["value"], row["replicate"]
    return {
        "replicate": None if pd.isna(replicate) else replicate,
        "trial": None if pd.isna(row["trial"]) else int(row["trial"]),
        "status": row["status"],
        "epochs": None if pd.isna(row["epochs"]) else float(row["epochs"]),
        "value": None if pd.isna(value) else float(value),
        "config": _config(row),
        "mlflow_run_id": row["mlflow_run_id"] or None,
    }


def _config(row: Mapping[str, Any]) -> dict:
    try:
        config = json.loads(row["config"]) if row["config"] else {}
    except ValueError:
        config = {}
    return config if isinstance(config, dict) else {}


def _add_drawn(trials: list[dict], plan: Plan) -> list[str]:
    """The settings that the search chose for this arm; each trial's own go to its `drawn`.

    A trial's configuration has a value for every setting there is, of other methods' too. Chosen
    was what the plan searches, where its `when` holds and more than one value was tried. Without
    a plan that is what differs between the trials of a replicate.
    """
    for t in trials:
        t["drawn"] = {
            name: value
            for name, value in t["config"].items()
            if isinstance(value, str | int | float)
            and (not plan.space or name in plan.space)
            and all(t["config"].get(n) in among for n, among in plan.space.get(name, {}).items())
        }
    tried: dict[tuple, set] = {}
    for t in trials:
        group = None if plan.space else t["replicate"]
        for name, value in t["drawn"].items():
            tried.setdefault((name, group), set()).add(value)
    chosen = {name for (name, _), values in tried.items() if len(values) > 1}
    settings = sorted(chosen, key=[*plan.space, *(name for name, _ in tried)].index)
    for t in trials:
        t["drawn"] = {name: t["drawn"][name] for name in settings if name in t["drawn"]}
    return settings


def _add_scores(done: list[dict], own: pd.DataFrame) -> None:
    """Each complete trial's mean over its trainings: its own, and its rechecks on other seeds."""
    rechecks = own[(own["phase"] == "recheck") & (own["status"] == "finished")]
    for t in done:
        again = rechecks[rechecks["trial"] == t["trial"]]
        if t["replicate"] is not None:
            again = again[again["replicate"] == t["replicate"]]
        scores = [t["value"], *again["value"].dropna()]
        t["score"], t["trainings"] = float(np.mean(scores)), len(scores)


def _winners(done: list[dict], own: pd.DataFrame, sign: float) -> list[dict]:
    """The frozen trial of each replicate, in their order; one where there are none.

    It is the complete trial whose settings were confirmed, and the best one where none was.
    """
    frozen = own[own["phase"] == "confirm"].to_dict("records")
    confirmed = [(None if pd.isna(r["replicate"]) else r["replicate"], _config(r)) for r in frozen]
    by_replicate: dict[object, list[dict]] = {}
    for trial in done:
        by_replicate.setdefault(trial["replicate"], []).append(trial)
    found = []
    for replicate in in_order(by_replicate):
        rivals = by_replicate[replicate]
        config = next((c for r, c in confirmed if r == replicate and c), None)
        same = [t for t in rivals if config and t["drawn"].items() <= config.items()]
        found.append(max(same or rivals, key=lambda t: sign * t["score"]))
    return found


def _add_ties(winners: list[dict], done: list[dict], confirmed: pd.DataFrame, sign: float) -> dict:
    """How many other complete trials of a winner's search are within noise of it.

    A trial is tied where its score is less than the winner's by no more than one standard error
    of the difference of two means over as many trainings, `sd_seed` · √(1/n + 1/n').
    """
    sd, source = _sd_seed(winners, confirmed)
    for winner in winners:
        rivals = [t for t in done if t["replicate"] == winner["replicate"] and t is not winner]
        for t in rivals:
            behind = sign * (winner["score"] - t["score"])
            per_training = 1 / winner["trainings"] + 1 / t["trainings"]
            t["tied"] = None if sd is None else behind <= sd * per_training**0.5
        winner["others"] = len(rivals)
        winner["ties"] = None if sd is None else sum(t["tied"] for t in rivals)
    return {
        "sd_seed": sd,
        "source": source,
        "tied": None if sd is None else sum(w["ties"] for w in winners),
        "others": sum(w["others"] for w in winners),
    }


def _sd_seed(winners: list[dict], confirmed: pd.DataFrame) -> tuple[float | None, str | None]:
    """sd of the search's metric between trainings of the same settings, and where it is from.

    It is that of the winners' confirmation runs, pooled within replicates. Where each replicate
    has one run, it is that of search score minus confirmed score, over √2 for two trainings.
    """
    groups = [own.to_numpy() for _, own in confirmed.groupby("replicate", dropna=False)["value"]]
    freedom = sum(len(values) - 1 for values in groups)
    if freedom > 0:
        squares = sum(((values - values.mean()) ** 2).sum() for values in groups)
        return float((squares / freedom) ** 0.5), "confirmation seeds"
    searched, found = _twice(winners, confirmed)
    if len(found) < 3:
        return None, None
    return float((searched - found).std(ddof=1) / 2**0.5), "search against confirmation"


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


def _confirmed(arm: str, metric: str, condition: str | None, results: Results) -> pd.DataFrame:
    """The search's metric at the last epoch of the confirmation runs: replicate, seed, value."""
    curves = results.curves
    own = curves[(curves["arm"] == arm) & (curves["metric"] == metric)]
    if condition is not None and (own["condition"] == condition).any():
        own = own[own["condition"] == condition]
    if own["condition"].nunique() > 1:  # tuned under one of them, but which is not known
        own = own.iloc[:0]
    ends = own.sort_values("epoch").groupby("seed", as_index=False).last()
    units = [
        results.unit_of(seed) if results.unit == "replicate" else None for seed in ends["seed"]
    ]
    return ends.assign(replicate=pd.Series(units, dtype=object))


def _twice(winners: list[dict], confirmed: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Winners' scores in the search and when confirmed: by replicate, or by one search's seed."""
    found = confirmed.groupby("replicate")["value"].mean()
    if found.empty:
        best = [w["value"] for w in winners[:1]] * len(confirmed)
        return np.array(best), confirmed["value"].to_numpy()[: len(best)]
    both = [(w["value"], found[w["replicate"]]) for w in winners if w["replicate"] in found]
    searched, again = zip(*both, strict=True) if both else ((), ())
    return np.array(searched), np.array(again)


def _winners_curse(winners: list[dict], confirmed: pd.DataFrame) -> dict | None:
    """Search best minus the confirmed mean of the same validation metric at the last epoch.

    Over replicates it is the mean of each winner's own, with its interval.
    """
    searched, found = _twice(winners, confirmed)
    if not len(found):
        return None
    lost = describe(searched - found)
    return {
        "condition": confirmed["condition"].iloc[0],
        "search_best": float(searched.mean()),
        "confirmed_mean": float(found.mean()),
        "n": lost["n"],
        "difference": lost["mean"],
        "ci_low": lost["ci_low"],
        "ci_high": lost["ci_high"],
    }
