"""Secondary tests beside the sign-flip test: Wilcoxon, Bayesian t, stochastic order, Friedman."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from analysis.statistics.paired import EXACT_MOST, RNG_SEED, Paired, sign_flip

# Each by the name of its number in a comparison's record. To add one: a function and a line here,
# and a column in `analysis.tables.comparisons`.
SECONDARY: dict[str, Callable[[Paired, float | None, int], object]] = {
    "p_t": lambda paired, margin, seed: float(stats.ttest_rel(paired.b, paired.a).pvalue),
    "p_wilcoxon": lambda paired, margin, seed: wilcoxon(paired.d_int, seed=seed),
    "bayes": lambda paired, margin, seed: bayesian_t(paired.d, margin),
    "aso_epsilon": lambda paired, margin, seed: almost_stochastic_order(
        paired.a, paired.b, seed=seed
    ),
}


def secondary(paired: Paired, margin: float | None, *, seed: int = RNG_SEED) -> dict[str, object]:
    """The numbers of all secondary tests; None where scores or differences do not vary."""
    if paired.degenerate:
        return dict.fromkeys(SECONDARY)
    return {name: test(paired, margin, seed) for name, test in SECONDARY.items()}


def wilcoxon(d: np.ndarray, *, seed: int = RNG_SEED) -> float | None:
    """Wilcoxon signed-rank p; by flipping the signs of midranks where ties spoil the tables.

    The permutation null of signed ranks is the sign-flip null of the ranks themselves, so the
    primary test's code serves; SciPy's `PermutationMethod` gives the same p, minutes later.
    """
    nonzero = d[d != 0]
    if not len(nonzero):
        return None
    ranks = stats.rankdata(np.abs(nonzero))
    if len(np.unique(ranks)) < len(d) or len(d) > EXACT_MOST:
        return sign_flip(np.sign(nonzero) * ranks, seed=seed)[0]
    return float(stats.wilcoxon(d, method="exact").pvalue)


def bayesian_t(d: np.ndarray, margin: float | None) -> dict[str, float]:
    """Posterior shares of the mean difference: below, within and above ±margin (0 without one).

    Under Jeffreys' prior the posterior of the mean is Student's t with n - 1 degrees of freedom
    about the mean, scaled by the standard error. Source: Benavoli et al. 2017, section 4, rho = 0.
    """
    edge = margin or 0.0
    posterior = stats.t(len(d) - 1, loc=np.mean(d), scale=stats.sem(d))
    below, above = float(posterior.cdf(-edge)), float(posterior.sf(edge))
    return {"below": below, "within": max(0.0, 1 - below - above), "above": above}


def almost_stochastic_order(
    a: np.ndarray, b: np.ndarray, *, seed: int = RNG_SEED, resamples: int = 999
) -> float | None:
    """Upper 95 % limit of how far b is from stochastically dominating a: 0 dominates, 1 loses.

    ε is the share of ∫(F_b⁻¹ - F_a⁻¹)² that stems from quantiles at which b falls below a; for
    equal n that is a sum over sorted scores. The limit is ε + 1.645·sd over bootstrap samples.
    Source: Dror et al. 2019, Eq. 5-7. Departure: the bootstrap sd is used without rescaling by
    √(n/2) and back, which cancels.
    """
    if len(a) != len(b) or np.array_equal(np.sort(a), np.sort(b)):
        return None
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(a), size=(2, resamples, len(a)))
    spread = np.nanstd(_violation(a[draws[0]], b[draws[1]]))
    limit = float(_violation(a, b) + stats.norm.ppf(0.95) * spread)
    return float(np.clip(limit, 0, 1))


def _violation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gaps = np.sort(b, axis=-1) - np.sort(a, axis=-1)
    total = np.sum(gaps**2, axis=-1)
    below = np.sum(np.minimum(gaps, 0) ** 2, axis=-1)
    # Samples that coincide order neither way.
    return np.where(total > 0, below / np.where(total > 0, total, 1), 0.5)


def friedman(table: np.ndarray, arms: list[str], alpha: float = 0.05) -> dict:
    """Friedman's p, mean ranks (1 is best) and Nemenyi's critical difference.

    CD = q_α √(k(k + 1)/6n) with q_α the studentised range's quantile over √2.
    Source: Demšar 2006, section 3.2.2.

    Args:
        table: (n seeds, k arms) scores, higher is better.
    """
    n, k = table.shape
    ranks = stats.rankdata(-table, axis=1).mean(axis=0)
    unit = np.sqrt(k * (k + 1) / (6 * n))
    # Every row tied leaves Friedman's statistic 0/0.
    tied = np.ptp(table, axis=1).max() == 0
    groups = _groups(
        ranks, float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) * unit / 2**0.5
    )
    pairs = [
        {
            "a": arms[i],
            "b": arms[j],
            "p_nemenyi": float(
                stats.studentized_range.sf(abs(ranks[i] - ranks[j]) / unit * 2**0.5, k, np.inf)
            ),
        }
        for i in range(k)
        for j in range(i + 1, k)
    ]
    return {
        "test": "friedman",
        "n": n,
        "statistic": None if tied else float(stats.friedmanchisquare(*table.T).statistic),
        "p_value": None if tied else float(stats.friedmanchisquare(*table.T).pvalue),
        "reason": "all arms tie on every seed" if tied else None,
        "mean_ranks": dict(zip(arms, map(float, ranks), strict=True)),
        "critical_difference": float(stats.studentized_range.ppf(1 - alpha, k, np.inf))
        * unit
        / 2**0.5,
        "groups": [[arms[i] for i in group] for group in groups],
        "nemenyi": pairs,
    }


def _groups(ranks: np.ndarray, critical: float) -> list[list[int]]:
    """Maximal sets of arms whose ranks lie within one critical difference."""
    order = list(np.argsort(ranks, kind="stable"))
    groups: list[list[int]] = []
    for start in range(len(order)):
        group = [i for i in order[start:] if ranks[i] - ranks[order[start]] <= critical]
        if len(group) > 1 and not any(set(group) <= set(g) for g in groups):
            groups.append(group)
    return groups
