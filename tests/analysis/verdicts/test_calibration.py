"""False claims are as rare, and intervals as wide, as promised.

Tolerances are five standard errors of the simulated rate: a false alarm in under one of 10⁶ runs,
and the generator's seed is fixed.
"""

from __future__ import annotations

import math

import pytest

from analysis.verdicts.calibration import (
    Luck,
    Scenario,
    simulate,
    simulate_curves,
    simulate_methods,
)

STUDIES = 120


def error(rate: float, n: int) -> float:
    return 5 * math.sqrt(rate * (1 - rate) / n)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [Scenario("normal"), Scenario("ties", test_images=100), Scenario("tails", noise="t3"),
     Scenario("failures", failures=0.05)],
    ids=lambda s: s.name,
)  # fmt: skip
def test_false_claims_stay_below_alpha(scenario):
    found = simulate(scenario, studies=STUDIES, seed=11)
    assert found["false_claims"] <= 0.05 + error(0.05, STUDIES)
    assert found["coverage"] >= 0.95 - error(0.95, STUDIES)


@pytest.mark.slow
def test_a_design_that_cannot_reach_claims_nothing():
    assert simulate(Scenario("five", seeds=5), studies=30, seed=12)["false_claims"] == 0


@pytest.mark.slow
def test_power_is_the_theorys():
    found = simulate(Scenario("effect", d_z=1.5), studies=STUDIES, seed=13)
    assert found["power"] == pytest.approx(
        found["power_theory"], abs=error(found["power_theory"], STUDIES)
    )


@pytest.mark.slow
def test_bands_hold_whole_curves_and_max_t_keeps_alpha():
    found = simulate_curves(seeds=8, epochs=10, studies=200, seed=14)
    assert found["band_coverage"] >= 0.95 - error(0.95, 200)
    assert found["max_t_errors"] <= 0.05 + error(0.05, 200)


@pytest.mark.slow
def test_replicates_cover_the_methods_difference_and_seeds_of_one_search_do_not():
    studies = 60
    rates = simulate_methods(Luck(1), studies=studies, seed=15)
    assert rates["coverage"] >= 0.95 - error(0.95, 4 * studies)
    assert rates["false_claims"] <= 0.05 + error(0.05, studies)
    alone = simulate_methods(Luck(1, replicates=1, seeds=8), studies=studies, seed=15)
    assert alone["coverage"] < 0.75
    assert alone["false_claims"] > 0.2
