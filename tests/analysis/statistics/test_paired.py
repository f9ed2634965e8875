"""Tests, intervals, effect sizes and power against their equations."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from analysis.statistics import effect_sizes, power, secondary_tests
from analysis.statistics.paired import (
    bootstrap_interval,
    describe,
    equivalence_p,
    holm,
    pair,
    paired_interval,
    sign_flip,
    t_interval,
)

counts = st.lists(st.integers(-20, 20), min_size=2, max_size=9)


def flipped_by_hand(d) -> float:
    observed = abs(sum(d))
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(d))]  # fmt: skip
    return sum(s >= observed for s in sums) / len(sums)


@given(counts)
def test_sign_flip_counts_every_pattern_of_signs(d):
    assert sign_flip(np.array(d, float)) == (pytest.approx(flipped_by_hand(d)), "exact")


@pytest.mark.parametrize("ties", [False, True])
def test_fast_enumeration_gives_scipys_p(ties):
    d = np.random.default_rng(3).normal(0.4, 1, 15)
    d = np.round(d) if ties else d
    scipys = stats.permutation_test((d,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(d) == (pytest.approx(min(1.0, scipys.pvalue), abs=1e-12), "exact")


def test_above_twenty_pairs_p_is_sampled_repeatable_and_never_zero():
    d = np.full(40, 1.0) + np.random.default_rng(0).normal(0, 0.01, 40)
    p, method = sign_flip(d)
    assert method == "monte_carlo"
    # (0 + 1)/(R + 1), doubled as SciPy doubles the smaller tail.
    assert 0 < p <= 2 / 100_000
    assert sign_flip(d) == (p, method)


@given(counts)
def test_a_p_value_is_one_and_swapping_arms_keeps_it(d):
    d = np.array(d, float)
    p = sign_flip(d)[0]
    assert 0 < p <= 1
    assert sign_flip(-d)[0] == pytest.approx(p)
    assert sign_flip(3 * d)[0] == pytest.approx(p)


def test_counts_make_ties_ties():
    # In floats 0.9 - 0.8 and 0.8 - 0.7 differ in the last digit.
    exact = pair([Fraction(8, 10), Fraction(7, 10)], [Fraction(9, 10), Fraction(8, 10)])
    floats = pair([0.8, 0.7], [0.9, 0.8])
    assert exact.d_int[0] == exact.d_int[1] == 1
    assert floats.d[0] != floats.d[1]
    assert floats.d_int[0] == floats.d_int[1]


def test_holm_is_its_definition_and_keeps_members_without_p():
    p = [0.01, None, 0.04, 0.03]
    # sorted .01 .03 .04 1 times 4 3 2 1, running maximum
    assert holm(p) == pytest.approx([0.04, 1.0, 0.09, 0.09])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusting_never_lowers_a_p_value(p):
    adjusted = holm(p)
    assert all(0 <= a <= 1 and a >= b - 1e-12 for a, b in zip(adjusted, p, strict=True))


def test_intervals_are_students():
    x = np.array([0.71, 0.74, 0.70, 0.77, 0.73])
    half = stats.t.ppf(0.975, 4) * x.std(ddof=1) / np.sqrt(5)
    assert t_interval(x) == pytest.approx((x.mean() - half, x.mean() + half))
    a = np.array([0.70, 0.70, 0.69, 0.74, 0.71])
    d = x - a
    half = stats.t.ppf(0.975, 4) * d.std(ddof=1) / np.sqrt(5)
    assert paired_interval(pair(a, x)) == pytest.approx((d.mean() - half, d.mean() + half))


def test_equivalence_takes_the_worse_of_two_one_sided_tests():
    d = np.array([0.001, -0.002, 0.003, 0.0, 0.001, 0.002])
    a = np.linspace(0.6, 0.7, 6)
    se = d.std(ddof=1) / np.sqrt(6)
    above = stats.t.sf((d.mean() + 0.005) / se, 5)
    below = stats.t.cdf((d.mean() - 0.005) / se, 5)
    assert equivalence_p(pair(a, a + d), 0.005) == pytest.approx(max(above, below), rel=1e-6)


def test_bootstrap_is_not_offered_below_fifteen_pairs():
    x = np.random.default_rng(0).normal(1, 1, 15)
    assert bootstrap_interval(x[:14]) is None
    low, high = bootstrap_interval(x)
    assert low < x.mean() < high


def test_describe_leaves_out_what_cannot_be_had():
    assert describe([0.5])["sd"] is None
    assert describe([0.5, 0.6, 0.7])["iqm"] is None
    assert describe([0.0, 0.5, 0.7, 9.0])["iqm"] == pytest.approx(0.6)
    assert describe([0.5] * 4)["ci_low"] is None


@pytest.mark.parametrize(
    ("scores", "reason"),
    [([0.1, 0.2], "too_few_pairs"), ([0.0] * 5, "identical_scores"), ([0.1] * 5, "zero_variance")],
)
def test_degenerate_pairs_are_named(scores, reason):
    a = np.linspace(0.5, 0.6, len(scores))
    assert pair(a, a + scores).degenerate == reason


def test_standardised_mean_interval_puts_the_tails_where_they_belong():
    d = np.random.default_rng(1).normal(1, 1, 10)
    t = effect_sizes.standardised_mean(d) * np.sqrt(10)
    low, high = effect_sizes.standardised_mean_interval(d)
    assert stats.nct.sf(t, 9, low * np.sqrt(10)) == pytest.approx(0.025, abs=1e-6)
    assert stats.nct.cdf(t, 9, high * np.sqrt(10)) == pytest.approx(0.025, abs=1e-6)


def test_a12_and_win_rate_count_pairs():
    a, b = [0.1, 0.4, 0.5, 0.5], [0.2, 0.4, 0.7, 0.3]
    found = effect_sizes.effects(pair(a, b))
    wins = [(y > x) + 0.5 * (y == x) for x in a for y in b]
    assert found["a12"] == pytest.approx(sum(wins) / 16)
    assert found["cliffs_delta"] == pytest.approx(2 * found["a12"] - 1)
    assert (found["wins"], found["ties"], found["losses"]) == (2, 1, 1)
    exact = stats.binomtest(2, 4).proportion_ci(method="exact")
    assert found["win_rate_ci"] == pytest.approx([exact.low, exact.high])


@pytest.mark.parametrize("d", [[1, 1, 2, -3, 4, 5], [0, 1, 2, -2, 4, 5], [1, 2, -3, 4, 5, 6]])
def test_wilcoxon_is_scipys_with_and_without_ties(d):
    d = np.array(d, float)
    scipys = stats.wilcoxon(d, method=stats.PermutationMethod(n_resamples=9999))
    assert secondary_tests.wilcoxon(d) == pytest.approx(scipys.pvalue)


def test_bayesian_shares_are_the_one_sided_t_tests():
    d = np.random.default_rng(2).normal(0.5, 1, 9)
    shares = secondary_tests.bayesian_t(d, None)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["below"] == pytest.approx(stats.ttest_1samp(d, 0, alternative="greater").pvalue)


def test_stochastic_order_is_zero_for_a_dominant_arm_and_one_for_a_dominated():
    a = np.linspace(0.5, 0.6, 8)
    assert secondary_tests.almost_stochastic_order(a, a + 0.5) == 0
    assert secondary_tests.almost_stochastic_order(a + 0.5, a) == 1


@pytest.mark.parametrize(("m", "n"), [(1, 6), (3, 7), (6, 8), (12, 9), (30, 11)])
def test_seeds_that_a_family_needs(m, n):
    assert power.seeds_needed_for_family(m, 0.05, correction="holm") == n
    assert power.seeds_needed_for_family(m, 0.05) == 6
    assert m * power.smallest_p(n) <= 0.05 < m * power.smallest_p(n - 1)


@pytest.mark.parametrize(("n", "d_z"), [(5, 1.68), (8, 1.16), (10, 1.00), (20, 0.66)])
def test_minimum_detectable_effect_is_the_protocols(n, d_z):
    assert power.minimum_detectable_effect(n, 1, 0.05) == pytest.approx(d_z, abs=0.005)


@given(st.floats(0.2, 3), st.integers(1, 12))
def test_the_seeds_named_have_the_power_promised(d_z, m):
    n = power.seeds_for(d_z, m, 0.05)
    assert power.minimum_detectable_effect(n, m, 0.05) <= d_z + 1e-6
    assert n >= power.seeds_needed_for_family(m, 0.05)


def integrated_power(d_z: float, n: int, level: float) -> float:
    """P(|T| > t) with T = (Z + d_z √n)/√(V/df), integrated over V ~ χ²(df)."""
    df, shift, t = n - 1, d_z * np.sqrt(n), stats.t.isf(level / 2, n - 1)

    def density(v: float) -> float:
        edge = t * np.sqrt(v / df)
        tails = stats.norm.sf(edge - shift) + stats.norm.cdf(-edge - shift)
        return tails * stats.chi2.pdf(v, df)

    return integrate.quad(density, 0, df + 60 * np.sqrt(2 * df) + 60, limit=500, points=[df])[0]


@pytest.mark.parametrize(("n", "m"), [(3, 3), (6, 12), (8, 30), (20, 30), (50, 3)])
def test_small_levels_leave_the_detectable_effect_its_power(n, m):
    """SciPy's far tail is nan here and there, which was once taken for a power of 1."""
    d_z = power.minimum_detectable_effect(n, m, 0.01)
    assert integrated_power(d_z, n, 0.01 / m) == pytest.approx(0.8, abs=1e-5)


@pytest.mark.parametrize(("n", "level"), [(6, 1e-3), (50, 1e-3), (400, 1e-5)])
def test_power_rises_with_the_effect(n, level):
    found = [power._power(d_z, n, level) for d_z in np.arange(0, 8, 0.05)]
    assert (np.diff(found) > -1e-9).all()
    assert found[-1] == pytest.approx(1)


def test_the_fewest_seeds_have_the_power_and_one_seed_less_has_not():
    n = power.seeds_for(0.1, 12, 0.001)
    assert integrated_power(0.1, n - 1, 0.001 / 12) < 0.8 <= integrated_power(0.1, n, 0.001 / 12)


@pytest.mark.parametrize("d_z", [None, 0.0, float("nan"), 0.001])
def test_no_number_of_seeds_is_named_where_none_helps(d_z):
    assert power.seeds_for(d_z, 1, 0.05) is None
