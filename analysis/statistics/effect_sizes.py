"""Effect sizes: differences in units that are comparable between studies.

They are shown beside the verdict and never decide it.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from analysis.statistics.paired import CONFIDENCE, Paired


def effects(paired: Paired) -> dict[str, object]:
    """d_z, A12 / Cliff's delta, win rate and the correlation of seeds, with intervals.

    A12 and Cliff's delta ignore the pairing. A number that is not defined is None.
    """
    dz = standardised_mean(paired.d) if paired.degenerate is None else None
    n = paired.n
    wins, losses = int((paired.d_int > 0).sum()), int((paired.d_int < 0).sum())
    a12 = None
    if n:
        a12 = float(stats.mannwhitneyu(paired.b, paired.a, method="asymptotic").statistic) / n**2
    rate = stats.binomtest(wins, n).proportion_ci(CONFIDENCE, "exact") if n else None
    return {
        "dz": dz,
        "dz_ci": standardised_mean_interval(paired.d) if dz is not None else [None, None],
        "a12": a12,
        "cliffs_delta": None if a12 is None else 2 * a12 - 1,
        "win_rate": wins / n if n else None,
        "win_rate_ci": [float(rate.low), float(rate.high)] if rate else [None, None],
        "wins": wins,
        "ties": n - wins - losses,
        "losses": losses,
        "seed_correlation": _correlation(paired),
    }


def standardised_mean(d: np.ndarray) -> float:
    """d_z, the mean of the differences over their standard deviation (ddof = 1)."""
    return float(np.mean(d) / np.std(d, ddof=1))


def standardised_mean_interval(d: np.ndarray, level: float = CONFIDENCE) -> list[float | None]:
    """Noncentral-t interval of d_z.

    With t = d_z·√n, the limits are the noncentralities at which t is the upper and the lower
    tail quantile, over √n. Source: Cumming & Finch 2001; `scipy.special.nctdtrinc`.
    """
    n = len(d)
    t = standardised_mean(d) * np.sqrt(n)
    tail = (1 - level) / 2
    with np.errstate(all="ignore"):
        limits = special.nctdtrinc(n - 1, [1 - tail, tail], t) / np.sqrt(n)
    good = np.isfinite(limits).all() and limits[0] <= t / np.sqrt(n) <= limits[1]
    return [float(limits[0]), float(limits[1])] if good else [None, None]


def _correlation(paired: Paired) -> float | None:
    if paired.n < 3 or np.ptp(paired.a) == 0 or np.ptp(paired.b) == 0:
        return None
    value = float(np.corrcoef(paired.a, paired.b)[0, 1])
    return value if np.isfinite(value) else None
