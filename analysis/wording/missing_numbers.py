"""The reasons why a comparison lacks a number: every null of report.json has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.statistics import FEWEST_FOR_BOOTSTRAP, MOST_SEEDS, SECONDARY
from analysis.wording.sentences import why

_NO_MARGIN = "no margin was declared, or none in this metric's unit"
_WHY = {
    "margin": _NO_MARGIN,
    "p_tost": _NO_MARGIN,
    "p_tost_adjusted": f"equivalence was not claimed, or {_NO_MARGIN}",
    "units_for_margin": f"{_NO_MARGIN}, or more than {MOST_SEEDS:,} units",
    "sd_search": "it takes two replicates with two seeds in one of them",
    "sd_seed": "it takes two seeds in a replicate",
    "p_supports": "nothing was claimed of this comparison",
    "p_refutes": "nothing was claimed of this comparison",
    "bootstrap_ci": f"offered from {FEWEST_FOR_BOOTSTRAP} pairs on",
    "minimum_detectable_difference": "too few pairs for any difference",
    "seed_correlation": "an arm has the same score on every seed",
    "aso_epsilon": "both arms have the same scores, in another order",
    "simultaneous_ci": "too few pairs, or differences without spread",
    "dz_ci": "the noncentral t distribution has no such limits in double precision",
    "win_rate_ci": "no pairs",
}
_NUMBERS = (
    *dict.fromkeys((
        *_WHY, "mean_difference", "sd_difference", "ci_low", "ci_high", "p_value", *SECONDARY,
        "dz", "a12", "cliffs_delta", "win_rate",
    )),
)  # fmt: skip


def absent(record: Mapping[str, Any]) -> dict[str, str]:
    """The names of a comparison's missing numbers, each with the reason."""
    flaw = why(record) if record["verdict"] == "invalid" else None
    return {
        name: _WHY[name]
        if name in _WHY and (flaw is None or name == "margin")
        else flaw or "not defined for these scores"
        for name in _NUMBERS
        if record[name] is None or record[name] == [None, None]
    }
