"""The bounds are the printed formulas, the mixture is what it says, and theory meets experiment."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import vonmises_fisher

from contrastive.bounds.__main__ import main
from contrastive.bounds.errors import (
    dropped_errors,
    eq_9_gap,
    estimate,
    lemma_1_slack,
    lemma_4_slack,
    neg_errors,
    pos_errors,
    slope,
)
from contrastive.bounds.mixture import Mixture, sample
from contrastive.bounds.theorems import lemma_1, theorem_2_1, theorem_3, theorem_5
from contrastive.losses.debiased_negatives import per_anchor as neg_per_anchor
from contrastive.losses.debiased_positives import per_anchor as pos_per_anchor
from contrastive.losses.terms.anchors import Anchors

TWO = Mixture(classes=2)


def draws(mixture, n, m, trials, seed=0):
    return sample(mixture, n, m, trials, torch.Generator().manual_seed(seed))


def test_theorem_2_1_is_bound_15():
    # [ (1 + 3 + 0) √(π/20) + (1 + 4) √(π/22) ] e^{3/2}, N = 10, τ⁺ = 1/4
    printed = (4 * math.sqrt(math.pi / 20) + 5 * math.sqrt(math.pi / 22)) * math.e**1.5
    mended = (4 * math.sqrt(math.pi / 20) + 5 * math.sqrt(math.pi / 24)) * (math.e**2 - 1)
    assert theorem_2_1(10, 1, 0.25) == pytest.approx(printed)
    assert theorem_2_1(10, 1, 0.25, mended=True) == pytest.approx(mended)


def test_theorem_3_and_lemma_1_are_their_bounds():
    # e^{3/2}/τ⁻ √(π/2N) + e^{3/2}τ⁺/τ⁻ √(π/2M), N = 8, M = 2, τ⁺ = 0.2
    printed = math.e**1.5 * (math.sqrt(math.pi / 16) + 0.2 * math.sqrt(math.pi / 4)) / 0.8
    assert theorem_3(8, 2, 0.2) == pytest.approx(printed)
    ratio = theorem_3(8, 2, 0.2, mended=True) / printed
    assert ratio == pytest.approx((math.e**2 - 1) / math.e**1.5)
    assert lemma_1(8, 2, 0.2) == pytest.approx(theorem_3(8, 2, 0.0))


@pytest.mark.parametrize("bound", [theorem_2_1, theorem_3, lemma_1])
def test_bounds_refuse_what_they_are_not_stated_for(bound):
    with pytest.raises(ValueError, match=r"n is 0 .*allowed: numbers of samples"):
        bound(0, 1, 0.1)
    with pytest.raises(ValueError, match=r"tau_plus is 1.0; allowed: a number in"):
        bound(8, 1, 1.0)
    if bound is theorem_2_1:
        with pytest.raises(ValueError, match="m is 2; allowed: 1"):
            bound(8, 2, 0.1)


@pytest.mark.parametrize("classes", [2, 10])
def test_the_mixture_has_the_distribution_and_expectations_it_claims(classes):
    mixture, size = Mixture(classes), 100_000
    g = torch.Generator().manual_seed(0)
    z = mixture.draw(torch.full((size,), 1), g)
    torch.testing.assert_close(z.norm(dim=-1), torch.ones(size, dtype=torch.float64))
    mu = mixture.directions[1].numpy()
    theirs = vonmises_fisher(mu, mixture.concentration).rvs(size, random_state=0)
    x = mixture.draw(torch.tensor([0]), g)
    ours = (z @ x[0]).exp()
    exact = mixture.expected_h(x)[0, 1]
    # 5 standard errors: a false alarm once in 10⁶
    error = ours.std() / math.sqrt(size)
    assert abs(ours.mean() - exact) < 5 * error
    assert abs((torch.from_numpy(theirs) @ x[0]).exp().mean() - exact) < 5 * error


def test_the_errors_are_those_of_the_losses():
    n, tau = 6, TWO.tau_plus
    s = draws(TWO, n, 1, 50)

    def anchors(positives, mean_negative):
        return Anchors(s.pos.log()[None], positives.log()[None],
                       ((n * mean_negative).log()[None],), 6.0, 6.0, None, 1.0)  # fmt: skip

    pos = pos_per_anchor(anchors(s.pos, s.of_p_minus), 1.0, tau, "clamp")[0]
    limit = torch.log1p(n * s.expected_minus / s.expected_plus)
    torch.testing.assert_close(pos_errors(s, n, tau, as_printed=True), pos - limit)
    neg = neg_per_anchor(anchors(s.positives, s.of_p), 1.0, tau, "clamp")[0]
    limit = torch.log1p(n * s.expected_minus / s.pos)
    torch.testing.assert_close(neg_errors(s, n, tau), neg - limit)


@pytest.mark.slow
def test_debiased_pos_converges_at_rate_one_half_when_p_is_drawn_from_p():
    sizes = [64, 256, 1024, 4096]
    found = [estimate(pos_errors(draws(TWO, n, 1, 1500), n, 0.5, as_printed=False)) for n in sizes]
    # The relative standard error of each of the four is about 0.02, that of the slope 0.01.
    assert slope(sizes, [e.absolute for e in found]) == pytest.approx(-0.5, abs=0.06)
    for n, e in zip(sizes, found, strict=True):
        assert e.absolute < theorem_2_1(n, 1, 0.5)


def test_debiased_pos_as_printed_does_not_converge_and_breaks_theorem_2_1():
    """Eq. 13 puts draws of p⁻ where the proof needs draws of p: the error tends to a constant."""
    n = 4096
    s = draws(TWO, n, 1, 400)
    e = estimate(pos_errors(s, n, 0.5, as_printed=True))
    limit = (s.expected_plus / s.expected_minus).log().mean().item()
    assert e.bias == pytest.approx(limit, abs=0.02)
    assert e.bias - 5 * e.bias_error > theorem_2_1(n, 1, 0.5, mended=True)
    assert theorem_2_1(n, 1, 0.5, mended=True) > theorem_2_1(n, 1, 0.5)


def test_debiased_neg_converges_at_rate_one_half_and_keeps_its_bound():
    mixture, sizes = Mixture(10), [16, 64, 256, 1024]
    samples = [draws(mixture, n, n, 1500) for n in sizes]
    found = [
        estimate(neg_errors(s, n, mixture.tau_plus)) for s, n in zip(samples, sizes, strict=True)
    ]
    assert slope(sizes, [e.absolute for e in found]) == pytest.approx(-0.5, abs=0.06)
    for n, e in zip(sizes, found, strict=True):
        assert e.absolute < theorem_3(n, n, mixture.tau_plus)


def test_lemma_1_holds():
    for n in (4, 64, 1024):
        e = estimate(lemma_1_slack(draws(TWO, n, 1, 500), n))
        assert e.bias + 5 * e.bias_error > -lemma_1(n, 1, 0.5)


@pytest.mark.parametrize(
    ("n", "trials", "within"),
    [(1_022, 2000, 0.02), pytest.param(262_144, 60, 0.001, marks=pytest.mark.slow)],
)
def test_debiased_pos_meets_its_limit_where_false_negatives_are_dropped(n, trials, within):
    found = estimate(dropped_errors(draws(Mixture(10), n, 1, trials), n, 0.1))
    assert abs(found.bias) < within
    assert found.absolute < theorem_2_1(n, 1, 0.1)


def test_the_dropped_error_is_that_of_the_loss():
    """From a batch: the anchor's error by `debiased_pos` is the formula's on the same numbers."""
    s = draws(TWO, 6, 1, 50)
    some = s.kept > 0
    kept = s.kept[some].double()
    a = Anchors(
        s.pos[some].log()[None],
        s.pos[some].log()[None],
        ((kept * s.of_kept[some]).log()[None],),
        kept,
        6.0,
        (6 * s.of_p[some]).log()[None],
        1.0,
    )
    loss = pos_per_anchor(a, 1.0, 0.5, "clamp")[0]
    limit = torch.log1p(kept * s.expected_minus[some] / s.expected_plus[some])
    torch.testing.assert_close(dropped_errors(s, 6, 0.5), loss - limit)


@pytest.mark.parametrize("classes", [2, 10])
def test_lemma_4_holds_from_k_less_one_negatives_on(classes):
    mixture = Mixture(classes)
    for n in (classes - 1, 64):
        e = estimate(lemma_4_slack(mixture, draws(mixture, n, 1, 1000), n))
        assert e.bias - 5 * e.bias_error > 0


def test_eq_9_of_the_preprint_is_off_by_a_constant():
    """The left side of Eq. 9 less its right side is the gap and not 0, at an N without noise."""
    mixture, n = Mixture(10), 10**7
    s = draws(mixture, 1, 1, 50_000)
    left = torch.log1p(n * s.expected_minus / s.pos)
    right = torch.log1p(n * s.expected_minus / s.expected_plus)
    difference, gap = estimate(left - right), estimate(eq_9_gap(mixture, s)).bias
    assert gap > 10 * difference.bias_error
    assert difference.bias == pytest.approx(gap, abs=5 * difference.bias_error)


def test_theorem_5_is_its_bound():
    # N = 4, M = 2, τ⁺ = 0.2, T = 100, R = 3, δ = e^-4
    spread = math.sqrt(1.5 / 0.64 + 0.04 * 3)
    expected = 0.5 / 0.8 + 0.25 * math.sqrt(0.5) + spread * 0.03
    expected += math.log(4) * (1.25 + 0.2) * 0.2
    found = theorem_5(4, 2, 0.2, samples=100, rademacher=3, delta=math.exp(-4))
    assert found == pytest.approx(expected)
    with pytest.raises(ValueError, match="samples is 0"):
        theorem_5(4, 2, 0.2, samples=0)


def test_the_same_seed_gives_the_same_sample():
    for x, y in zip(draws(TWO, 8, 2, 20), draws(TWO, 8, 2, 20), strict=True):
        assert torch.equal(x, y)
    assert not torch.equal(draws(TWO, 8, 2, 20, seed=1).pos, draws(TWO, 8, 2, 20).pos)


@pytest.mark.slow
def test_the_command_prints_tables_and_draws_the_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("contrastive.bounds.comparison.NEGATIVES", (16, 64, 256))
    monkeypatch.setattr("contrastive.bounds.comparison.POSITIVES", (1, 4, 16))
    main(["--figure", str(tmp_path / "bounds.png"), "--trials", "20"])
    assert (tmp_path / "bounds.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.count("slope of log E|Δ|") == 10
    assert "Lemma 1" in printed
