"""The median time to a threshold, with runs that never reach it."""

from __future__ import annotations

import warnings

import numpy as np
from statsmodels.duration.survfunc import SurvfuncRight


def median_time(times: np.ndarray, reached: np.ndarray) -> dict[str, float | None]:
    """Kaplan-Meier median of times to an event, None where half the runs never reached it.

    Args:
        times: (n,) time of the event, or of the run's end where it did not happen.
        reached: (n,) bool, whether it happened.
    """
    if not reached.any():
        return {"median": None, "ci_low": None, "ci_high": None, "reason": "never reached"}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # log(-log S) is infinite where S is 1 or 0; the limits there are open.
        warnings.simplefilter("ignore")
        curve = SurvfuncRight(times, reached.astype(int))
        # The first time by which half have arrived; statsmodels requires more than half.
        arrived = curve.surv_times[curve.surv_prob <= 0.5 + 1e-12]
        low, high = (float(x) for x in curve.quantile_ci(0.5))
    if not len(arrived):
        reason = "fewer than half reached it"
        return {"median": None, "ci_low": None, "ci_high": None, "reason": reason}
    return {
        "median": float(arrived[0]),
        "ci_low": low if np.isfinite(low) else None,
        "ci_high": high if np.isfinite(high) else None,
        "reason": None,
    }
