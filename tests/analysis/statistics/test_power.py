"""Planning: limits of a pilot, and how a budget is divided."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.statistics.power import best_split, minimum_detectable_difference, sd_upper_limit


def test_a_pilots_upper_limit_covers_four_times_in_five():
    rng = np.random.default_rng(0)
    sds = rng.standard_normal((2000, 5)).std(axis=1, ddof=1)
    covered = np.mean([sd_upper_limit(sd, 5) >= 1 for sd in sds])
    assert covered == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 2000))
    assert sd_upper_limit(1.0, 1) == math.inf


@pytest.mark.parametrize(
    ("ratio", "costs"), [(0.5, (6, 1)), (1, (6, 1)), (2, (12, 1)), (1, (1, 1))]
)
def test_the_best_split_beats_every_other(ratio, costs):
    search, confirm = costs

    def shown(replicates: int, seeds: int) -> float:
        sd = math.sqrt(ratio**2 + 1 / seeds)
        return minimum_detectable_difference(replicates, sd, 4)

    found = best_split(search, confirm, ratio, 1.0, 200, m=4)
    every = [
        shown(replicates, seeds)
        for replicates in range(6, 101)
        for seeds in range(1, 60)
        if replicates * (search + seeds * confirm) <= 200
    ]
    assert shown(found.replicates, found.seeds) <= 1.01 * min(every)
    assert found.cost <= 200


def test_many_replicates_have_the_seeds_that_minimise_the_variance():
    """n = √(c_search σ²_seed / (c_confirm σ²_search)), where the t distribution matters little."""
    found = best_split(9, 1, 1.0, 2.0, 100_000)
    assert found.seeds == 6


def test_the_familys_replicates_come_first():
    assert best_split(10, 1, 0.1, 5.0, 66).seeds == 1
    assert best_split(10, 1, 0.1, 5.0, 66).replicates == 6
    assert best_split(10, 1, 0.1, 5.0, 65) is None


def test_the_smallest_difference_is_in_the_unit_of_the_sd():
    assert minimum_detectable_difference(8, 0.02) == pytest.approx(0.0232, abs=1e-4)
