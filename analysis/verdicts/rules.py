"""The rules of a verdict: the table of docs/statistics.md as a function.

No file is read and no test is run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.verdicts.families import (
    AT_LEAST_MARGIN,
    AT_LEAST_MINUS_MARGIN,
    AT_LEAST_ZERO,
    AT_MOST_MARGIN,
    AT_MOST_MINUS_MARGIN,
    AT_MOST_ZERO,
    Null,
    Outcome,
)

REASONS = {
    "one_search": "a single search ran, so how much of the difference is the luck of its tuning is"
    " not known",
    "design_cannot_reach": "so few {unit}s cannot reach significance, whatever they show",
    "insufficient_evidence": "the {unit}s do not decide it",
    "missing_sensitive": "the answer depends on how runs that broke down are scored",
    "unplanned_looks": "the results were looked at before the planned number of {unit}s,"
    " without this being planned",
    "too_few_pairs": "fewer than 3 {unit}s have a score in both arms",
    "identical_scores": "both arms have the same score on every {unit}",
    "zero_variance": "the difference is the same on every {unit}, which real runs do not do",
    "duplicate_rows": "the table holds several scores for one run",
    "search_phase_scores": "scores of the search phase are among them, and those are selected",
}


@dataclass(frozen=True)
class Evidence:
    """What a verdict may look at.

    `tested` has the comparison's hypotheses; `high` is the upper simultaneous limit of the gain,
    which is positive where the arm is better; `can_reach` says whether so many units can reach
    significance at all.
    """

    asks: str | None
    tested: Mapping[Null, Outcome]
    high: float | None
    margin: float | None
    can_reach: bool
    invalid: str | None


@dataclass(frozen=True)
class Verdict:
    """better, worse, not_better (by the margin), equivalent, undecided or invalid."""

    verdict: str
    reason: str | None = None
    within_margin: bool = False


def judge(evidence: Evidence) -> Verdict:
    """The verdict on one comparison, from the hypotheses that fell."""
    if evidence.invalid:
        return Verdict("invalid", evidence.invalid)
    fell = {null for null, tested in evidence.tested.items() if tested.fell}
    inside = {AT_MOST_MINUS_MARGIN, AT_LEAST_MARGIN} <= fell
    if evidence.asks == "equivalent":
        if inside:
            return Verdict("equivalent", within_margin=True)
        if AT_MOST_MARGIN in fell or AT_LEAST_MINUS_MARGIN in fell:
            return Verdict("better" if AT_MOST_MARGIN in fell else "worse")
    elif evidence.asks:
        small = bool(evidence.margin) and AT_LEAST_MARGIN in fell
        if AT_MOST_ZERO in fell:
            return Verdict("better", within_margin=small)
        if AT_LEAST_MARGIN in fell:
            below = evidence.high is not None and evidence.high < 0
            return Verdict("worse" if below or not evidence.margin else "not_better")
    else:
        if AT_MOST_ZERO in fell or AT_LEAST_ZERO in fell:
            return Verdict("better" if AT_MOST_ZERO in fell else "worse", within_margin=inside)
        if inside:
            return Verdict("equivalent", within_margin=True)
    if not evidence.can_reach:
        return Verdict("undecided", "design_cannot_reach")
    return Verdict("undecided", "insufficient_evidence")


def answer(asks: str, verdict: Verdict) -> str:
    """A claim's answer: supported, refuted, undecided or invalid.

    `better` and `less_hurt` are supported by better and refuted by worse or not better by the
    margin; `equivalent` is supported by equivalent and refuted by a difference beyond the margin.
    """
    if verdict.verdict in ("undecided", "invalid"):
        return verdict.verdict
    supports = "equivalent" if asks == "equivalent" else "better"
    return "supported" if verdict.verdict == supports else "refuted"
