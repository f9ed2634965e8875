"""The importance of searched settings for an arm's validation score, by Optuna's PED-ANOVA.

Stopped trials count as well as complete ones, since all are judged at the last epoch that every
one of them reached: survivors of early stopping are a selection, and few.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from study.design import SearchSpace, Study, arms_of
from study.phases import distribution
from study.records import Ending, Ledger
from study.workload import Settings

optuna.logging.set_verbosity(optuna.logging.ERROR)

TOP = 5  # trials that count as good; Optuna's documentation advises against fewer
FEWEST = 2 * TOP
TOP_SHARE = 0.1  # and Optuna's default where there are more than 50 trials
SHUFFLES = 99
MOST_PARTS = 20
RNG_SEED = 20240607


def importances(study: Study, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Importance of the searched settings, per arm; empty for a study without a search.

    Returns:
        by arm `trials` and `top`, how many were judged and how many of them count as good,
        `epoch`, at which, `settings` and `reason`. A setting has its `importance`, the share in
        [0, 1] of all settings' divergences, `low` and `high`, its range when any one trial (from 21
        trials on, any twentieth of them) is left out, and `p_shuffled`, the share of shuffles of
        the scores that give it at least as much. Where there are no numbers, `reason` says why.
    """
    if study.search is None:
        return {}
    endings: dict[str, list[Ending]] = {arm: [] for arm in study.arms}
    for ending in ledger.all("search"):
        endings[ending.job.arm].append(ending)
    return {
        name: importance(
            arms_of(study)[name].space,
            own,
            metric=study.search.metric,
            better=study.better(study.search.metric),
        )
        for name, own in endings.items()
    }


def importance(
    space: SearchSpace, endings: Sequence[Ending], *, metric: str, better: str = "higher"
) -> dict[str, Any]:
    """Importance of the settings of one arm, in the shape that `importances` describes.

    PED-ANOVA asks how much the density of a setting among the good trials differs from that among
    all. Only the order of the scores counts, so a trial that diverged is simply no good one.

    Source: Watanabe et al. 2023, arXiv:2304.10255; for settings that only some trials have, the
    conditional form that Optuna has from 5.0 on. Before that such settings get no number.
    """
    judged = [e for e in endings if e.outcome in ("finished", "stopped")]
    diverged = [e for e in endings if e.outcome == "diverged"]
    epoch = _last_common_epoch(judged, metric)
    found: dict[str, Any] = {
        "trials": len(judged) + len(diverged),
        "top": max(TOP, int(np.ceil(TOP_SHARE * (len(judged) + len(diverged))))),
        "epoch": epoch,
        "settings": [],
        "reason": None,
    }
    drawn = [e.job.drawn for e in (*judged, *diverged)]
    sign = -1.0 if better == "lower" else 1.0
    scores = sign * np.array([_at(e, metric, epoch) for e in judged]) if epoch else np.array([])
    scores = np.append(scores, np.full(len(diverged), scores.min() - 1 if len(scores) else 0.0))
    found["reason"] = _why_not(space, endings, scores, found)
    if found["reason"] is None:
        found["settings"] = _rows(space, drawn, scores, found["top"])
    return found


def _why_not(
    space: SearchSpace, endings: Sequence[Ending], scores: np.ndarray, found: dict[str, Any]
) -> str | None:
    if len(space) < 2:
        return "fewer than two settings were searched"
    if not endings:
        return "the records of the trials are not in the study's folder"
    if found["trials"] < FEWEST:
        return f"{found['trials']} trials can be judged; {FEWEST} are needed"
    if found["epoch"] is None:
        return "the trials have no epoch in common"
    if (scores >= np.sort(scores)[-found["top"]]).all():
        return "too many trials have the same score"
    return None


def _last_common_epoch(endings: Sequence[Ending], metric: str) -> int | None:
    reached = [{r.epoch for r in e.records if r.epoch and metric in r.metrics} for e in endings]
    return max(set.intersection(*reached), default=None) if reached else None


def _at(ending: Ending, metric: str, epoch: int) -> float:
    return next(r.metrics[metric] for r in ending.records if r.epoch == epoch)


def _rows(
    space: SearchSpace, drawn: Sequence[Settings], scores: np.ndarray, top: int
) -> list[dict[str, Any]]:
    names = list(space)
    distributions = {name: distribution(space, name) for name in space}
    everything = np.arange(len(scores))

    def divergences(these: np.ndarray, values: np.ndarray) -> np.ndarray:
        return _divergences(names, distributions, [drawn[i] for i in these], values, top)

    whole = divergences(everything, scores)
    parts = min(len(scores), MOST_PARTS)
    rests = [everything[everything % parts != part] for part in range(parts)]
    without = np.array([divergences(rest, scores[rest]) for rest in rests])
    numbers = np.random.default_rng(RNG_SEED)
    shuffled = np.array([divergences(everything, numbers.permutation(scores))
                         for _ in range(SHUFFLES)])  # fmt: skip
    shares, ranges = _shares(whole), np.array([_shares(row) for row in without])
    rows = [
        {
            "setting": name,
            "importance": _number(shares[i]),
            "low": _number(ranges[:, i].min()),
            "high": _number(ranges[:, i].max()),
            "p_shuffled": _number(
                (1 + (shuffled[:, i] >= whole[i]).sum()) / (1 + SHUFFLES)
                if np.isfinite(whole[i])
                else np.nan
            ),
        }
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: -(row["importance"] or 0.0))


def _divergences(
    names: Sequence[str],
    distributions: dict[str, BaseDistribution],
    drawn: Sequence[Settings],
    scores: np.ndarray,
    top: int,
) -> np.ndarray:
    """(settings,) of PED-ANOVA, not scaled to a sum of one; nan where Optuna gives none."""
    study = optuna.create_study(direction="maximize")
    study.add_trials(
        [
            optuna.trial.create_trial(
                params=settings,
                distributions={name: distributions[name] for name in settings},
                value=float(score),
            )
            for settings, score in zip(drawn, scores, strict=True)
        ]
    )
    with warnings.catch_warnings():
        # Experimental until Optuna 5; and a shuffle may leave out a setting that few trials have.
        warnings.simplefilter("ignore")
        evaluator = PedAnovaImportanceEvaluator(target_quantile=top / len(scores))
        found = get_param_importances(study, evaluator=evaluator, normalize=False)
    return np.array([found.get(name, np.nan) for name in names])


def _shares(divergences: np.ndarray) -> np.ndarray:
    total = np.nansum(divergences)
    return divergences / total if total > 0 else np.full(len(divergences), np.nan)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
