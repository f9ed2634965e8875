"""What can so many seeds show, and how many would a wanted difference take?

All effects are d_z: the mean of the paired differences over their standard deviation.
"""

from __future__ import annotations

import math
from functools import lru_cache

from statsmodels.stats.power import TTestPower

POWER = 0.8
# Beyond this many seeds the answer is "not with seeds".
MOST_SEEDS = 10_000


def smallest_p(n: int) -> float:
    """The smallest two-sided p that an exact sign-flip test of n pairs can reach, 2/2ⁿ."""
    return min(1.0, 2.0 ** (1 - n)) if n > 0 else 1.0


def seeds_needed_for_family(m: int, alpha: float = 0.05) -> int:
    """The fewest pairs with which Holm's first step can reject among m comparisons.

    Solves m · 2/2ⁿ ≤ α: m = 1 needs 6, 3 needs 7, 6 needs 8, 12 needs 9, 30 needs 11.
    """
    n = max(1, math.ceil(math.log2(2 * max(m, 1) / alpha)))
    # log2 rounds: an exact power of two may land one too high or too low.
    while n > 1 and max(m, 1) * smallest_p(n - 1) <= alpha:
        n -= 1
    while max(m, 1) * smallest_p(n) > alpha:
        n += 1
    return n


@lru_cache(maxsize=1024)
def minimum_detectable_effect(
    n: int, m: int = 1, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Smallest d_z that n pairs detect with the given power at level α/m; None below 3 pairs.

    It is the paired t test's figure; the exact test is close to it but never below its own
    gate, `seeds_needed_for_family`.
    """
    if n < 3:
        return None
    # solve_power's bracketing gives up on tiny designs; power rises with the effect, so bisect.
    tester, level = TTestPower(), alpha / max(m, 1)
    low, high = 0.0, 1.0
    while _power(tester, high, n, level) < power:
        high *= 2
        if high > 1e4:
            return None
    for _ in range(60):
        middle = (low + high) / 2
        if _power(tester, middle, n, level) < power:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def seeds_for(
    d_z: float | None, m: int = 1, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Pairs that detect d_z with the given power at level α/m, and that the exact test needs.

    None where no affordable number does (d_z of 0 or nan, or more than 10,000 seeds).
    """
    if d_z is None or not math.isfinite(d_z) or d_z == 0:
        return None
    tester, level = TTestPower(), alpha / max(m, 1)
    low = seeds_needed_for_family(m, alpha)
    if _power(tester, abs(d_z), low, level) >= power:
        return low
    high = low
    while _power(tester, abs(d_z), high, level) < power:
        low, high = high, high * 2
        if low > MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if _power(tester, abs(d_z), middle, level) < power:
            low = middle
        else:
            high = middle
    return high if high <= MOST_SEEDS else None


def _power(tester: TTestPower, d_z: float, n: int, level: float) -> float:
    value = float(tester.power(d_z, n, level, alternative="two-sided"))
    # The noncentral t returns nan for huge noncentralities, where power is 1.
    return 1.0 if math.isnan(value) else value
