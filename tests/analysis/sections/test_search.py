"""The search section: whose settings were frozen, which were searched, and which trials tie."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from analysis.report import analyse
from analysis.tables import tables
from analysis.wording.paragraphs import beside

VAL, TEST = "val/acc", "test/acc"
SPACE = {
    "rate": {"low": 0.01, "high": 1.0},
    "tau": {"low": 0.0, "high": 1.0, "when": {"loss": ["b"]}},
    "kind": {"choices": ["sum", "mean"], "when": {"loss": "b"}},
}


def plan(**changes) -> dict:
    return {
        "arms": {"a": {"loss": "a"}, "b": {"loss": "b"}},
        "search": {"metric": VAL, "trials_per_arm": 3, "space": SPACE},
        "confirm": {"seeds": 4, "metrics": [TEST]},
        "claims": [{"id": "C", "better": "b", "than": "a", "metric": TEST}],
        "scope": "configuration",
    } | changes


def config(arm: str, trial: int) -> str:
    """As a study writes it: complete, with what the other arm's loss takes."""
    return json.dumps({"loss": arm, "rate": 0.1 * (trial + 1), "kind": "sum", "depth": 2,
                       "tau": 0.5 if arm == "a" else 0.1 * (trial + 1)})  # fmt: skip


def runs_of(searched, winner=0, rechecks=(), replicate=None, seeds=(1, 2, 3, 4)) -> list[dict]:
    """Trials of both arms with these (score, status), and confirmation runs of one's settings."""
    rows = []
    for arm in "ab":
        shared = {"arm": arm, "replicate": replicate, "epochs": 1, "status": "finished"}
        rows += [
            shared | {"phase": "search", "trial": t, "seed": 90, "value": score, "status": status,
                      "config": config(arm, t)}
            for t, (score, status) in enumerate(searched)
        ]  # fmt: skip
        rows += [
            shared | {"phase": "recheck", "trial": t, "seed": seed, "value": score,
                      "config": config(arm, t)}
            for t, seed, score in rechecks
        ]  # fmt: skip
        rows += [shared | {"phase": "confirm", "seed": s, "config": config(arm, winner)}
                 for s in seeds]  # fmt: skip
    return rows


def results_of(confirmed: dict[int, float], replicates: dict[int, int] | None = None):
    """A curve that ends at these scores, by seed, and some test score."""
    rng = np.random.default_rng(3)
    rows = [
        (arm, seed, epoch, metric, value, (replicates or {}).get(seed))
        for arm in "ab"
        for seed, end in confirmed.items()
        for epoch, metric, value in (
            (0, VAL, 0.1), (1, VAL, end), (None, TEST, rng.integers(600, 700) / 1000),
        )
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["arm", "seed", "epoch", "metric", "value", "replicate"])


def searched(runs, results, **changes):
    report = analyse(results, plan=plan(**changes), runs=pd.DataFrame(runs))
    return report, report["search"][0]


DONE = "finished"
CONFIRMED = {1: 0.58, 2: 0.59, 3: 0.60, 4: 0.59}  # sd .00816, √2 of it .01155


def test_trials_within_one_standard_error_of_the_winner_are_tied():
    trials = [(0.60, DONE), (0.589, DONE), (0.588, DONE), (0.595, "stopped")]
    report, arm = searched(runs_of(trials), results_of(CONFIRMED))
    assert arm["ties"]["sd_seed"] == pytest.approx(np.std(list(CONFIRMED.values()), ddof=1))
    assert arm["ties"]["source"] == "confirmation seeds"
    assert (arm["ties"]["tied"], arm["ties"]["others"]) == (1, 2)
    assert [t.get("tied") for t in arm["trials"]] == [None, True, False, None]
    assert any("1 of 2 other trials of b, 1 of 2 of a" in part for part in beside(report, "C"))


def test_ties_follow_the_direction_of_the_metric():
    worse = {"metrics": {VAL: {"better": "lower"}, TEST: {"better": "higher"}}}
    trials = [(0.60, DONE), (0.611, DONE), (0.612, DONE), (0.70, DONE)]
    _, arm = searched(runs_of(trials), results_of(CONFIRMED), **worse)
    assert (arm["ties"]["tied"], arm["ties"]["others"]) == (1, 3)


def test_the_winner_is_what_was_confirmed_not_the_best_single_score():
    """Rechecks chose trial 1; the mean over its trainings counts, and narrows the tie."""
    trials = [(0.62, DONE), (0.61, DONE), (0.585, DONE)]
    again = [(0, 91, 0.58), (0, 92, 0.57), (1, 91, 0.60), (1, 92, 0.605)]
    _, arm = searched(runs_of(trials, winner=1, rechecks=again), results_of(CONFIRMED))
    (winner,) = arm["winners"]
    assert (winner["trial"], winner["trainings"]) == (1, 3)
    assert winner["score"] == pytest.approx(0.605)
    # Trial 0 has the mean .59, .015 below, more than .00816 · √(2/3); trial 2 .02 below.
    assert (winner["ties"], winner["others"]) == (0, 2)


def test_with_one_seed_per_replicate_the_noise_is_that_of_search_against_confirmation():
    tops, seeds = (0.60, 0.61, 0.59, 0.62), (1, 2, 3, 4)
    replicates = dict(zip(seeds, (1, 2, 3, 4), strict=True))
    runs = [
        row
        for seed, top in zip(seeds, tops, strict=True)
        for row in runs_of([(top, DONE), (top - 0.02, DONE)], replicate=seed, seeds=[seed])
    ]
    lost = np.array(tops) - np.array(list(CONFIRMED.values()))
    method = {"search": plan()["search"] | {"replicates": 4}, "scope": "method"}
    report, arm = searched(runs, results_of(CONFIRMED, replicates), **method)
    assert arm["ties"]["sd_seed"] == pytest.approx(lost.std(ddof=1) / 2**0.5)
    assert arm["ties"]["source"] == "search against confirmation"
    tied = int(lost.std(ddof=1) >= 0.02)
    assert [w["ties"] for w in arm["winners"]] == [tied] * 4
    (row,) = (t.rows[0] for t in tables(report) if t.name == "search")
    best, confirmed, curse = (float(cell) for cell in row[4:7])
    assert best == pytest.approx(100 * np.mean(tops), abs=0.05)
    assert curse == pytest.approx(best - confirmed, abs=0.11)


def test_without_a_second_training_nothing_is_called_tied():
    report, arm = searched(
        runs_of([(0.6, DONE), (0.6, DONE)], seeds=[1]), results_of({1: 0.6, 2: 0.6, 3: 0.6})
        .query("seed == 1 or metric == @TEST")
    )  # fmt: skip
    assert (arm["ties"]["sd_seed"], arm["ties"]["tied"]) == (None, None)
    assert not any("ied with" in part for part in beside(report, "C"))


def test_an_arm_has_only_the_settings_that_its_search_chose():
    """`tau` and `depth` stand in every configuration; a's loss takes no tau, nobody drew depth."""
    report, arm = searched(runs_of([(0.60, DONE), (0.59, DONE)]), results_of(CONFIRMED))
    assert [s["settings"] for s in report["search"]] == [["rate"], ["rate", "tau"]]
    assert arm["trials"][1]["drawn"] == {"rate": 0.2}
    (table,) = (t for t in tables(report) if t.name == "search")
    assert table.columns[:2] == ("Arm", "Searched")
    assert [row[1] for row in table.rows] == ["rate", "rate, tau"]
    (winners,) = (t for t in tables(report) if t.name == "winners")
    assert winners.columns == ("Arm", "Trial", "rate", "tau", "Tied")
    assert [row[3] for row in winners.rows] == ["–", "0.1"]


def test_without_a_plan_settings_are_what_differs_within_a_replicate():
    runs = [
        row | {"config": row["config"].replace('"depth": 2', f'"depth": {row["replicate"]}')}
        for r in (1, 2, 3)
        for row in runs_of([(0.60, DONE), (0.59, DONE)], replicate=r, seeds=[r])
    ]
    results = results_of({1: 0.58, 2: 0.59, 3: 0.60}, {1: 1, 2: 2, 3: 3})
    report = analyse(results, runs=pd.DataFrame(runs))
    assert [s["settings"] for s in report["search"]] == [["rate"], ["rate", "tau"]]
