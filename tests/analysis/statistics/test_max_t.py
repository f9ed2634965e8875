"""Step-down max-T against a plain count of all 2ⁿ flips, and what it promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics import pair
from analysis.statistics.max_t import adjusted_p, statistics, whole_numbers
from analysis.verdicts.families import AT_LEAST_MARGIN, Question, decide_family


def by_counting(rows: list[list[int]]) -> list[float]:
    """The equations, one flip at a time: fall with p ≤ α, take out, test the rest again.

    The smallest α at which a null falls is found by trying every p that can occur.
    """
    n = len(rows[0])
    flips = list(itertools.product((1, -1), repeat=n))

    def statistic(row, flip):
        return sum(g * x for g, x in zip(flip, row, strict=True)) / math.sqrt(
            sum(x * x for x in row)
        )

    flipped = [[statistic(row, flip) for flip in flips] for row in rows]
    observed = [statistic(row, [1] * n) for row in rows]

    def p_among(standing, j):
        hits = sum(
            max(flipped[k][i] for k in standing) >= observed[j] - 1e-9 for i in range(len(flips))
        )
        return max(hits / len(flips), 2 / 2**n)

    found = {}
    for alpha in sorted(i / len(flips) for i in range(1, len(flips) + 1)):
        standing = list(range(len(rows)))
        while True:
            fall = [j for j in standing if p_among(standing, j) <= alpha]
            if not fall:
                break
            for j in fall:
                found.setdefault(j, alpha)
            standing = [j for j in standing if j not in fall]
            if not standing:
                break
    return [found[j] for j in range(len(rows))]


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_share_of_all_flips_step_by_step(seed):
    rows = np.random.default_rng(seed).integers(-4, 9, (3, 6))
    rows[rows.sum(axis=1) == 0] += 1
    found, method = adjusted_p(rows.astype(float))
    assert method == "exact"
    assert found == pytest.approx(by_counting(rows.tolist()), abs=1e-12)


@pytest.mark.parametrize("n", [15, 16, 18])
def test_blocks_of_flips_are_all_flips(n):
    x = np.random.default_rng(n).integers(-9, 12, (1, n)).astype(float)
    sums = np.zeros(1)
    for value in x[0]:
        sums = np.concatenate([sums + value, sums - value])
    expected = max((sums >= x.sum()).mean(), 2.0 ** (1 - n))
    assert adjusted_p(x)[0][0] == expected


@pytest.mark.parametrize("claims", [1, 4, 20])
def test_the_smallest_p_does_not_depend_on_the_number_of_claims(claims):
    d = np.random.default_rng(0).integers(900, 1100, (claims, 7)).astype(float)
    assert set(adjusted_p(np.concatenate([d, -d]))[0][:claims]) == {2 / 2**7}


def test_equal_units_are_ties_whatever_their_scale():
    x = np.array([[1.0] * 8, [7.0] * 8])
    assert set(adjusted_p(x)[0]) == {2 / 2**8}
    assert statistics(x)[0] == pytest.approx(math.sqrt(8))


def test_above_twenty_units_flips_are_sampled_and_repeat():
    x = np.random.default_rng(3).integers(-5, 9, (3, 24)).astype(float)
    first, method = adjusted_p(x)
    assert method == "monte_carlo"
    assert (adjusted_p(x)[0] == first).all()
    assert (first > 0).all()


def question(gains, margin=0.05, asks="better") -> Question:
    a = [0.5] * len(gains)
    paired = pair(a, [x + g for x, g in zip(a, gains, strict=True)])
    return Question(asks, paired, range(len(gains)), 1, margin, paired.degenerate)


GAINS = st.lists(st.integers(-60, 60), min_size=7, max_size=7)


@settings(max_examples=150, deadline=None)
@given(st.lists(GAINS, min_size=1, max_size=3), st.integers(1, 80), st.sampled_from([None, 0.02]))
def test_lowering_every_difference_never_turns_refuted_into_undecided(claims, by, margin):
    def refuted(gains) -> bool:
        asked = [question([g / 1000 for g in own], margin) for own in gains]
        return decide_family(asked, alpha=0.05)[0][AT_LEAST_MARGIN].fell

    lower = [[g - by for g in claims[0]], *claims[1:]]
    if refuted(claims) and np.ptp(claims[0]) > 0:
        assert refuted(lower)


def test_a_unit_that_a_claim_lacks_leaves_its_sums():
    whole, part = question([0.03, 0.05, 0.04, 0.06, 0.05, 0.04, 0.02, 0.03]), None
    paired = pair([0.5] * 6, [0.55, 0.54, 0.56, 0.53, 0.55, 0.54])
    part = Question("better", paired, range(6), 1, None, None)
    tested = decide_family([whole, part], alpha=0.05)
    assert tested[1][("≤", 0)].p_adjusted == 2 / 2**6


def test_whole_numbers_keep_ties_and_leave_out_what_is_missing():
    from fractions import Fraction

    found = whole_numbers([Fraction(1, 3), None, Fraction(1, 6)])
    assert list(found) == [2, 0, 1]


@pytest.mark.parametrize("noise", ["normal", "t3"])
def test_the_family_wise_error_stays_below_alpha(noise):
    """Four correlated claims, two at 0 and two at the margin; tolerance three standard errors."""
    rng, studies, wrong = np.random.default_rng(8), 600, 0
    for _ in range(studies):
        shape = (5, 8)
        raw = rng.standard_normal(shape) if noise == "normal" else rng.standard_t(3, shape)
        d = np.round(1000 * (raw[1:] + 0.8 * raw[0])) + np.array([[0], [0], [800], [800]])
        p = adjusted_p(np.concatenate([d, 800 - d]))[0]
        wrong += bool((p[[0, 1, 6, 7]] <= 0.05).any())
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
