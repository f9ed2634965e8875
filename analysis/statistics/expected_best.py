"""The expected best score of k trials."""

from __future__ import annotations

import numpy as np
from scipy.special import comb


def expected_best(values: np.ndarray, *, higher: bool = True) -> np.ndarray:
    """Expected best of k = 1..n trials drawn without replacement: the unbiased estimator.

        E[best of k] = Σ_i x_(i) C(i - 1, k - 1)/C(n, k),  x_(1) <= ... <= x_(n)

    Source: Tang et al. 2020, "Showing Your Work Doesn't Always Work", Eq. 4.

    Args:
        values: (n,) validation scores of trials that ran to their end.
    """
    x = np.sort(values if higher else -values)
    n = len(x)
    i = np.arange(1, n + 1)
    best = np.array([(x * comb(i - 1, k - 1)).sum() / comb(n, k) for k in i])
    return best if higher else -best


def expected_best_biased(values: np.ndarray, *, higher: bool = True) -> np.ndarray:
    """The same with replacement, Σ_i x_(i) ((i/n)ᵏ - ((i - 1)/n)ᵏ): biased low, for comparison.

    Source: Dodge et al. 2019, "Show Your Work", Eq. 5-7.
    """
    x = np.sort(values if higher else -values)
    n = len(x)
    i = np.arange(1, n + 1)
    best = np.array([(x * ((i / n) ** k - ((i - 1) / n) ** k)).sum() for k in i])
    return best if higher else -best
