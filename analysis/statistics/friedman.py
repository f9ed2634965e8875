"""The Friedman test with Nemenyi's critical difference."""

from __future__ import annotations

import numpy as np
from scipy import stats


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
