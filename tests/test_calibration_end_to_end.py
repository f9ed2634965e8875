"""Do whole studies, from the YAML file to the verdict, find what is there and nothing else?

A quick version of the benchmark. Tolerances are five standard errors, as if the claims of a study
were one; seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import calibration_end_to_end as calibration
from benchmarks.calibration_end_to_end import (
    Design,
    Studies,
    coverage,
    decided,
    in_memory,
    luck_ratio,
    rerun,
)
from benchmarks.response_surface import DIVERGES_ABOVE, quality, train
from study import run_once

STUDIES = 8
NOW = Design(replicates=8, trials=3, seeds=1, ratio=2, arms=3)
BEFORE = replace(NOW, replicates=1, seeds=8)


@pytest.fixture(autouse=True)
def _in_memory() -> Iterator[None]:
    with in_memory():
        yield


@pytest.mark.parametrize("method", range(8))
def test_methods_are_reflections_of_each_other_and_a_constant(method: int):
    """So no method is easier to tune, and their true difference is that of their gains."""
    point = {"x": 0.2, "y": 0.3, "z": 0.9}
    turned = {n: 1 - v if method >> i & 1 else v for i, (n, v) in enumerate(point.items())}
    at = {"relief": 0.01, "method": method}
    assert quality(turned | at) == pytest.approx(quality(point | {"relief": 0.01}))
    plain = run_once(train, turned | at, seed=3, read_test=True).metrics
    better = run_once(train, turned | at | {"gain": 0.1}, seed=3, read_test=True).metrics
    for name in ("val/score", "test/score"):
        assert better[name] - plain[name] == pytest.approx(0.1)
    edge = (1 + DIVERGES_ABOVE) / 2
    turned["x"] = 1 - edge if method & 1 else edge
    assert run_once(train, turned | at, seed=3).outcome == "diverged"


def test_a_study_of_identical_arms_can_be_used_and_repeated():
    design = Design(replicates=6, trials=2, seeds=1, arms=3)
    first, again = calibration.run(design, 1), calibration.run(design, 1)
    assert first == again
    assert {claim["verdict"] for claim in first["claims"]} <= {"undecided", "supported", "refuted"}
    estimates = [claim["mean_difference"] for claim in first["claims"]]
    other = [claim["mean_difference"] for claim in calibration.run(design, 2)["claims"]]
    assert len({*estimates, *other}) == 4


def test_studies_that_were_kept_are_not_run_again(tmp_path, monkeypatch):
    design, seeds = Design(6, 2, 1, arms=2), itertools.count()
    monkeypatch.setattr(calibration, "run", lambda _, seed: {"claims": [], "luck": [next(seeds)]})
    kept = tmp_path / "kept.jsonl"
    first = Studies(1, kept).of(design, 2)
    assert Studies(1, kept).of(design, 3)[:2] == first
    assert next(seeds) == 3
    assert Studies(2, kept).of(design, 1)[0]["luck"] == [4]


def test_both_tables_have_a_row_for_each_design(monkeypatch, capsys):
    def invented(design: Design, seed: int) -> dict:
        """A study whose estimate is off by one, and whose interval is three wide."""
        off = {"mean_difference": design.truth + 1, "ci_low": design.truth - 0.5}
        claim = {"verdict": "supported", "ci_high": design.truth + 2.5} | off
        return {"claims": [claim] * (design.arms - 1), "luck": [0.02], "epochs": 10 * design.arms}

    monkeypatch.setattr(calibration, "run", invented)
    monkeypatch.setattr("sys.argv", ["calibration", "--studies", "4"])
    calibration.main()
    rows = [
        line.split(" | ") for line in capsys.readouterr().out.splitlines() if "replicates" in line
    ]
    sure = "1.000 [1.000, 1.000]"
    assert [row[2:] for row in rows[:3]] == [[sure, "1.000 [0.398, 1.000]", sure, f"{sure} |"]] * 3
    assert {row[1] for row in rows[3:]} == {"10"}
    assert len(rows) == 3 + 5


@pytest.mark.slow
def test_replicates_keep_the_promises_that_seeds_of_one_search_break():
    studies = Studies(seed=1)
    null, effect = studies.of(NOW, STUDIES), studies.of(replace(NOW, effect=True), STUDIES)
    covered = coverage(null, 0.0) + coverage(effect, calibration.EFFECT)
    error = 5 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert np.mean(covered) >= 0.95 - error / math.sqrt(2)
    assert np.mean(decided(null)) <= 0.05 + error
    before = studies.of(BEFORE, STUDIES)
    assert np.mean(coverage(before, 0.0)) < 0.55
    assert np.mean(decided(before)) > 0.5
    assert np.mean(rerun(before)) < 0.55 < np.mean(rerun(null + effect))
    # The surface is as it says: the winners' true differences vary about those of the methods.
    means = [np.mean(study["luck"]) for study in null + effect]
    assert abs(np.mean(means)) < 5 * np.std(means, ddof=1) / math.sqrt(len(means))
    assert 1.4 < luck_ratio(null + effect) < 2.8
