"""Step-down max-T over a family of one-sided hypotheses, by joint sign flips.

A null hypothesis says of a claim's units x that their mean is at most 0. Its statistic is
Σx/√Σx². Under the null the signs of the units are fair coins; one flip g of the units is applied
to all hypotheses at once, so that their dependence is kept.
Source: Westfall & Young 1993, algorithm 2.8; Romano & Wolf 2005.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy import stats

from analysis.statistics.paired import EXACT_MOST, RESAMPLES, RNG_SEED

TOLERANCE = 1e-11  # of statistics, which are below √20: equal ones may differ in the last digit
BLOCK = 14  # units whose 2¹⁴ flips are held at once
BATCH = 10_000  # sampled flips held at once


def whole_numbers(values: Sequence[Fraction | None]) -> np.ndarray:
    """Values on a common scale on which their sums are exact in float64; None becomes 0.

    A unit that a claim lacks thereby leaves its sums. Beyond 2⁵³ values are rounded there.
    """
    known = [Fraction(0) if value is None else value for value in values]
    scale = Fraction(math.lcm(*(value.denominator for value in known)))
    total = sum(abs(value) for value in known) * scale
    if total >= 2**53:
        scale *= Fraction(2**52) / total
    return np.array([round(value * scale) for value in known], dtype=float)


def statistics(x: np.ndarray) -> np.ndarray:
    """Σx/√Σx² of each row of x, (m, n); 0 where all its values are 0."""
    return x.sum(axis=1) / norms(x)


def norms(x: np.ndarray) -> np.ndarray:
    """√Σx² of each row; 1 where all its values are 0."""
    found = np.sqrt((x**2).sum(axis=1))
    return np.where(found > 0, found, 1)


def adjusted_p(x: np.ndarray, *, seed: int = RNG_SEED) -> tuple[np.ndarray, str]:
    """Step-down adjusted p of each null, and the method: `exact` or `monte_carlo`.

    From the largest statistic down, p is the share of flips in which the largest statistic of all
    nulls not yet passed reaches it, and no smaller than the p before. The nulls with p ≤ α are
    those that fall when all with p ≤ α are taken out and the rest is tested again, and so on.
    No p is below 2^(1-n), the smallest of a two-sided test of the n units that a null has.

    Args:
        x: (m, n) whole numbers, a row per null and a column per unit, 0 where the null lacks it.
        seed: of the draw above 20 units.
    """
    observed = statistics(x)
    order = np.argsort(-observed, kind="stable")
    reached, total = np.zeros(len(x)), 0
    for flipped in flips(x, seed=seed):
        total += flipped.shape[1]
        largest = np.full(flipped.shape[1], -np.inf)
        for k in order[::-1]:
            np.maximum(largest, flipped[k], out=largest)
            reached[k] += np.count_nonzero(largest >= observed[k] - TOLERANCE)
    exact = x.shape[1] <= EXACT_MOST
    p = reached / total if exact else (reached + 1) / (total + 1)
    p = np.maximum(p, 2.0 ** (1 - (x != 0).sum(axis=1)))
    p[order] = np.maximum.accumulate(p[order])
    return np.minimum(p, 1), "exact" if exact else "monte_carlo"


def flips(x: np.ndarray, *, seed: int = RNG_SEED) -> Iterator[np.ndarray]:
    """Statistics under sign flips, (m, some flips) at a time: all 2ⁿ, or a sample above 20 units.

    The sums are sums of whole numbers, exact in any order.
    """
    scale = norms(x)[:, None]
    n = x.shape[1]
    if n > EXACT_MOST:
        rng = np.random.default_rng(seed)
        for start in range(0, RESAMPLES, BATCH):
            signs = rng.choice([-1.0, 1.0], size=(min(BATCH, RESAMPLES - start), n))
            yield (x @ signs.T) / scale
        return
    # The last unit keeps its sign: the other half of all flips are these with their signs turned.
    inner = all_sums(x[:, : min(n - 1, BLOCK)])
    outer = all_sums(x[:, min(n - 1, BLOCK) : n - 1])
    for column in range(outer.shape[1]):
        half = (inner + (outer[:, column] + x[:, n - 1])[:, None]) / scale
        yield half
        yield -half


def all_sums(x: np.ndarray) -> np.ndarray:
    """(m, 2ⁿ) sums of each row under all flips; of flip i, bit u says that unit u turns its sign."""
    sums = np.zeros((len(x), 1))
    for column in x.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


def simultaneous_interval(d: np.ndarray, m: int, alpha: float) -> tuple[float, float] | None:
    """Student's t interval of a mean at level 1 - α/m (Bonferroni): m of them hold at once.

    None where d has fewer than two values or no spread.
    """
    if len(d) < 2 or np.ptp(d) == 0:
        return None
    found = stats.t.interval(1 - alpha / max(m, 1), len(d) - 1, loc=d.mean(), scale=stats.sem(d))
    return float(found[0]), float(found[1])
