"""Looks keep the level over all of them, exactly; the e-process at any time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from analysis.statistics.looks import critical_values, decided_at, e_value, expected_units


@pytest.mark.parametrize("looks", [(6, 8, 10), (5, 10), (10,)])
def test_of_all_sign_patterns_looks_reject_at_most_alpha(looks):
    sizes = np.random.default_rng(1).integers(1, 50, 10).astype(float)
    rejected = 0
    for signs in itertools.product((1, -1), repeat=10):
        d = sizes * np.array(signs)
        rejected += decided_at(np.stack([d, -d]), looks) != [None, None]
    assert 0.03 <= rejected / 2**10 <= 0.05


def test_a_look_spends_no_more_than_its_share():
    x = np.random.default_rng(2).integers(1, 50, (1, 12)).astype(float)
    first = critical_values(x, (6, 12))[6]
    sums = np.array([sum(g * v for g, v in zip(s, x[0, :6], strict=True))
                     for s in itertools.product((1, -1), repeat=6)])  # fmt: skip
    share = (sums / math.sqrt((x[0, :6] ** 2).sum()) >= first - 1e-9).mean()
    assert 0 < share <= 0.025


def test_too_few_units_reject_nothing_and_later_looks_wait():
    assert critical_values(np.ones((1, 4)), (4, 8, 12)) == {4: np.inf}
    assert decided_at(np.ones((1, 7)), (8, 12)) == [None]


def test_a_clear_effect_stops_early_and_none_goes_to_the_end():
    strong = expected_units(2.0, (8, 12, 16), studies=40)
    none = expected_units(0.0, (8, 12, 16), studies=150, seed=3)
    assert strong["units"] < 9
    assert strong["power"] == 1
    assert none["units"] > 15
    assert none["power"] <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


def test_the_e_process_rarely_ever_reaches_its_limit():
    """Ville's inequality over 30 looks; tolerance three standard errors."""
    rng, studies = np.random.default_rng(4), 400
    crossed = 0
    for _ in range(studies):
        d = rng.standard_normal(30)
        crossed += any(e_value(d[:n]) >= 20 for n in range(1, 31))
    assert crossed / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert e_value(np.zeros(5)) == 1
    assert e_value(np.full(20, 0.01)) > 100


def test_the_e_process_is_its_equation():
    d = [0.3, -0.1, 0.5]
    total = 0.0
    for kappa in (0.3, 0.6, 1.2, 2.4, -0.3, -0.6, -1.2, -2.4):
        product, squares = 1.0, 0.0
        for r, x in enumerate(d, 1):
            squares += x * x
            product *= 2 / (1 + math.exp(-2 * kappa * x / math.sqrt(squares / r)))
        total += product / 8
    assert e_value(np.array(d)) == pytest.approx(total)
