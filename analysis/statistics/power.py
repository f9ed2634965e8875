"""Power: the smallest effect that n units detect, and the units that an effect takes.

A unit is a replicate, or a seed where there are none. All effects are d_z: the mean of the paired
differences over their standard deviation, of searches and seeds together.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.power import TTestPower

POWER = 0.8
# Beyond this many, seeds are no answer.
MOST_SEEDS = 10_000


def smallest_p(n: int) -> float:
    """The smallest two-sided p that an exact sign-flip test of n pairs can reach, 2/2ⁿ."""
    return min(1.0, 2.0 ** (1 - n)) if n > 0 else 1.0


def seeds_needed_for_family(m: int, alpha: float = 0.05, *, correction: str = "max_t") -> int:
    """The fewest units with which a family of m comparisons can reach significance.

    Max-T: 2/2ⁿ ≤ α whatever m is, 6 units at α = .05. Holm: m · 2/2ⁿ ≤ α, which takes 7 for
    3 comparisons, 8 for 6 and 9 for 12.
    """
    times = max(m, 1) if correction == "holm" else 1
    n = max(1, math.ceil(math.log2(2 * times / alpha)))
    # log2 rounds: an exact power of two may land one too high or too low.
    while n > 1 and times * smallest_p(n - 1) <= alpha:
        n -= 1
    while times * smallest_p(n) > alpha:
        n += 1
    return n


@lru_cache(maxsize=1024)
def minimum_detectable_effect(
    n: int, m: int = 1, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """Smallest d_z that n units detect with the given power at level α/m; None below 3 units.

    It is the paired t test's figure. Where it promises 0.80, max-T had in 500 simulated studies
    0.77 and 0.76 (one claim, n = 8 and 12) and 0.87 and 0.88 (four claims that correlate by .5);
    at n = 6, where only unanimous signs reach significance, 0.62.
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


def sd_upper_limit(sd: float, n: int, confidence: float = POWER) -> float:
    """Upper limit of the true sd, from the sd of a pilot's n units; normal differences.

    A small pilot's sd is too low half of the time; planning with its upper 80 % limit keeps the
    promised power four times in five. Source: Browne 1995, Statistics in Medicine 14.
    """
    if n < 2:
        return math.inf
    return sd * math.sqrt((n - 1) / stats.chi2.ppf(1 - confidence, n - 1))


def minimum_detectable_difference(
    n: int, sd: float, m: int = 1, alpha: float = 0.05, power: float = POWER
) -> float | None:
    """The smallest difference that n units show, in the unit of sd: total, searches and seeds."""
    effect = minimum_detectable_effect(n, m, alpha, power)
    return None if effect is None else effect * sd


@dataclass(frozen=True)
class Split:
    """How a budget is divided: R replicates with n confirmation seeds each.

    `cost` is R·(c_search + n·c_confirm); `se` the standard error of the mean difference.
    """

    replicates: int
    seeds: int
    cost: float
    se: float


def best_split(
    c_search: float,
    c_confirm: float,
    sd_search: float,
    sd_seed: float,
    budget: float,
    *,
    needed: int = 6,
    m: int = 1,
    alpha: float = 0.05,
) -> Split | None:
    """The replicates and seeds that show the smallest difference of methods for a budget.

    n = √(c_search·σ²_seed / (c_confirm·σ²_search)) seeds per replicate minimise the variance
    (σ²_search + σ²_seed/n)/R at equal cost. Few replicates also cost the t test power, so every
    number of them that the family allows is compared by the difference that it shows.

    Args:
        c_search, c_confirm: cost of one replicate's search, and of one confirmation seed, of all
            arms and conditions together.
        sd_search, sd_seed: of the paired differences.
        budget: in the same unit as the costs.
        needed: replicates that the family needs (`seeds_needed_for_family`).
        m, alpha: comparisons of the family, and its level.

    Returns:
        None where the budget does not pay for `needed` replicates of one seed.
    """
    replicates = np.arange(needed, int(budget // (c_search + c_confirm)) + 1)
    if not len(replicates):
        return None
    seeds = np.floor((budget / replicates - c_search) / c_confirm + 1e-9)
    se = np.sqrt((sd_search**2 + sd_seed**2 / seeds) / replicates)
    # The t test's: its noncentral distribution would change the order by nothing that matters.
    t = stats.t(np.maximum(replicates - 1, 1))
    shown = (t.ppf(1 - alpha / (2 * max(m, 1))) + t.ppf(POWER)) * se
    best = int(np.argmin(shown))
    chosen, n = int(replicates[best]), int(seeds[best])
    return Split(chosen, n, chosen * (c_search + n * c_confirm), float(se[best]))


def _power(d_z: float, n: int, level: float) -> float:
    """Power of the two-sided paired t test; rises with d_z >= 0 and with n."""
    power = TTestPower().power
    value = float(power(d_z, n, level, alternative="two-sided"))
    if math.isnan(value):
        # SciPy is nan far out in the tail on the other side, which holds less than 1e-15 ...
        value = float(power(d_z, n, level / 2, alternative="larger"))
    # ... and again where the effect is so large that this tail holds all but 1e-15.
    return 1.0 if math.isnan(value) else value
