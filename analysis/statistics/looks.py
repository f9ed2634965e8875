"""Planned looks: an exact group-sequential test by sign flips, and an e-process beyond the plan.

At look k all flips of the units so far are enumerated, those that an earlier look rejects are
dropped, and the critical value c_k is the smallest with P(rejected by look k) ≤ α·R_k/R_K under
the flips. The level over all looks is thereby at most α.
Source of the e-process: Ramdas et al. 2020, arXiv:2009.03167 (symmetry); Ville's inequality.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from analysis.statistics.max_t import TOLERANCE, all_sums, norms, statistics
from analysis.statistics.paired import EXACT_MOST, RESAMPLES, RNG_SEED

KAPPAS = (0.3, 0.6, 1.2, 2.4)


def decided_at(
    x: np.ndarray, looks: Sequence[int], *, alpha: float = 0.05, seed: int = RNG_SEED
) -> list[int | None]:
    """The look, in units, at which each null falls; None for those that stand.

    Step-down: what fell leaves the family, critical values are computed again for the rest, and
    the rest is held against them at every look so far.

    Args:
        x: (m, n) whole numbers as for `adjusted_p`, units in the order in which they came.
        looks: all planned looks, in units; the last is the whole plan. Those beyond n are ahead.
    """
    fell: list[int | None] = [None] * len(x)
    reached = [look for look in looks if look <= x.shape[1]]
    observed = {look: statistics(x[:, :look]) for look in reached}
    standing = list(range(len(x)))
    while standing:
        limits = critical_values(x[standing], looks, alpha=alpha, seed=seed)
        falling = {}
        for j in standing:
            over = [k for k, c in limits.items() if observed[k][j] >= c - TOLERANCE]
            if over:
                falling[j] = over[0]
        if not falling:
            break
        for j, look in falling.items():
            fell[j] = look
        standing = [j for j in standing if j not in falling]
    return fell


def critical_values(
    x: np.ndarray, looks: Sequence[int], *, alpha: float = 0.05, seed: int = RNG_SEED
) -> dict[int, float]:
    """look -> c_k of the largest statistic over the rows of x, for the looks that x has reached.

    Infinite where no flip may be rejected yet.
    """
    found: dict[int, float] = {}
    gone = np.zeros(1, dtype=bool)
    reached = [look for look in looks if look <= x.shape[1]]
    for look, largest in zip(reached, _largest(x, reached, seed), strict=True):
        # all_sums lists the flips of later units block by block: earlier bits repeat.
        gone = np.tile(gone, len(largest) // len(gone))
        allowed = int(alpha * look / looks[-1] * len(largest) + 1e-9) - int(gone.sum())
        c = _smallest_limit(np.sort(largest[~gone])[::-1], allowed)
        found[look] = c
        gone |= largest >= c - TOLERANCE
    return found


def _largest(x: np.ndarray, looks: Sequence[int], seed: int):
    """At each look the largest statistic under every flip of its units, all or a fixed sample."""
    if not looks:
        return
    if looks[-1] <= EXACT_MOST:
        for look in looks:
            own = x[:, :look]
            yield (all_sums(own) / norms(own)[:, None]).max(axis=0)
        return
    rng = np.random.default_rng(seed)
    signs = np.vstack([np.ones(looks[-1]), rng.choice([-1.0, 1.0], size=(RESAMPLES, looks[-1]))])
    for look in looks:
        own = x[:, :look]
        yield ((own @ signs[:, :look].T) / norms(own)[:, None]).max(axis=0)


def _smallest_limit(descending: np.ndarray, allowed: int) -> float:
    """The smallest value that at most `allowed` of the values reach; ties stay together."""
    if allowed <= 0:
        return np.inf
    if allowed >= len(descending):
        return float(descending[-1])
    above = descending[descending > descending[allowed] + TOLERANCE]
    return float(above[-1]) if len(above) else np.inf


def e_value(d: np.ndarray) -> float:
    """Evidence against a mean of 0 that may be looked at after every unit: E = mean over ±κ of
    Π 2/(1 + exp(-2κ d_r/s_r)), with s_r² the mean of d_1² … d_r².

    While differences are symmetric about 0, P(E ever reaches 1/α) ≤ α.
    """
    d = np.asarray(d, dtype=float)
    scale = np.sqrt(np.cumsum(d**2) / np.arange(1, len(d) + 1))
    ratio = d / np.where(scale > 0, scale, 1)
    kappas = np.array([*KAPPAS, *(-k for k in KAPPAS)])
    # 2/(1 + exp(-2y)) = 1 + tanh(y), which does not overflow.
    return float(np.prod(1 + np.tanh(kappas[:, None] * ratio), axis=1).mean())


@lru_cache(maxsize=64)
def expected_units(
    effect: float,
    looks: tuple[int, ...],
    *,
    claims: int = 1,
    alpha: float = 0.05,
    studies: int = 200,
    seed: int = RNG_SEED,
) -> dict[str, float]:
    """What a design with looks takes if every claim's true effect is d_z = `effect`.

    Simulated, normal and independent claims without a margin; a study stops when all claims are
    decided.

    Returns:
        `units`: mean number of units; `power`: share of claims decided by the last look.
    """
    rng = np.random.default_rng(seed)
    used, decided = [], 0
    for _ in range(studies):
        d = np.round(1e6 * (effect + rng.standard_normal((claims, looks[-1]))))
        fell = decided_at(np.concatenate([d, -d]), looks, alpha=alpha)
        first = [a or b for a, b in zip(fell[:claims], fell[claims:], strict=True)]
        decided += sum(look is not None for look in first)
        used.append(looks[-1] if None in first else max(look for look in first if look))
    return {"units": float(np.mean(used)), "power": decided / (studies * claims)}
