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


@pytest.mark.parametrize(("ratio", "costs"), [(0.5, (6, 1)), (1, (6, 1)), (2, (12, 1)), (1, (1, 1))])
def test_the_best_split_beats_every_other(ratio, costs):
    search, confirm = costs
    found = best_split(search, confirm, ratio, 1.0, 200)
    every = [
        ((ratio**2 + 1 / n) / (200 // (search + n * confirm))) ** 0.5
        for n in range(1, 60)
        if 200 // (search + n * confirm) >= 6
    ]
    assert found.se == pytest.approx(min(every), rel=0.08)  # whole replicates leave a remainder
    assert found.cost <= 200


def test_the_familys_replicates_come_first():
    assert best_split(10, 1, 0.1, 5.0, 66).seeds == 1
    assert best_split(10, 1, 0.1, 5.0, 66).replicates == 6
    assert best_split(10, 1, 0.1, 5.0, 65) is None


def test_the_smallest_difference_is_in_the_unit_of_the_sd():
    assert minimum_detectable_difference(8, 0.02) == pytest.approx(0.0232, abs=1e-4)
