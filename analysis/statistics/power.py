"""Power: the smallest effect that n seeds detect, and the seeds that an effect takes.

All effects are d_z: the mean of the paired differences over their standard deviation.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

from scipy.optimize import brentq
from statsmodels.stats.power import TTestPower

POWER = 0.8
# Beyond this many, seeds are no answer.
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
    # solve_power's bracketing gives up on tiny designs, and brentq needs one: power rises with d_z.
    level, high = alpha / max(m, 1), 1.0
    while _power(high, n, level) < power:
        high *= 2
        if high > 1e4:
            return None
    return float(brentq(lambda d_z: _power(d_z, n, level) - power, 0, high))


@lru_cache(maxsize=4096)
def seeds_for(
    d_z: float | None, m: int = 1, alpha: float = 0.05, power: float = POWER
) -> int | None:
    """Pairs that detect d_z with the given power at level α/m, and that the exact test needs.

    None where no affordable number does (d_z of 0 or nan, or more than 10,000 seeds).
    """
    if d_z is None or not math.isfinite(d_z) or d_z == 0:
        return None
    level = alpha / max(m, 1)
    numbers = range(seeds_needed_for_family(m, alpha), MOST_SEEDS + 1)
    # Power rises with n: the first number that has enough, found by halving.
    at = bisect_left(numbers, True, key=lambda n: _power(abs(d_z), n, level) >= power)
    return numbers[at] if at < len(numbers) else None


def _power(d_z: float, n: int, level: float) -> float:
    """Power of the two-sided paired t test; rises with d_z >= 0 and with n."""
    power = TTestPower().power
    value = float(power(d_z, n, level, alternative="two-sided"))
    if math.isnan(value):
        # SciPy is nan far out in the tail on the other side, which holds less than 1e-15 ...
        value = float(power(d_z, n, level / 2, alternative="larger"))
    # ... and again where the effect is so large that this tail holds all but 1e-15.
    return 1.0 if math.isnan(value) else value
