"""The rules of a verdict: the table of docs/statistics.md as a function.

No file is read and no test is run here.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.statistics import smallest_p

FEWEST_FOR_EQUIVALENCE = 6

REASONS = {
    "design_cannot_reach": "so few seeds cannot reach significance in a family of this size,"
    " whatever they show",
    "insufficient_evidence": "the seeds do not decide it",
    "test_ci_conflict": "test and interval disagree",
    "missing_sensitive": "the answer depends on how runs that broke down are scored",
    "unplanned_looks": "the results were looked at before the planned number of seeds,"
    " without this being planned",
    "too_few_pairs": "fewer than 3 seeds have a score in both arms",
    "identical_scores": "both arms have the same score on every seed",
    "zero_variance": "the difference is the same on every seed, which real runs do not do",
    "duplicate_rows": "the table holds several scores for one run",
    "search_phase_scores": "scores of the search phase are among them, and those are selected",
}


@dataclass(frozen=True)
class Evidence:
    """What a verdict may look at. `gain` is the mean difference, signed so that > 0 is better."""

    n: int
    gain: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    p_adjusted: float
    p_tost_adjusted: float | None
    invalid: str | None


@dataclass(frozen=True)
class Verdict:
    verdict: str
    reason: str | None = None
    within_margin: bool = False


def judge(evidence: Evidence, *, alpha: float, family_size: int) -> Verdict:
    """The verdict on one comparison at level alpha in a family of that size."""
    if evidence.invalid:
        return Verdict("invalid", evidence.invalid)
    excludes_zero = not evidence.ci_low <= 0 <= evidence.ci_high
    small = evidence.p_tost_adjusted is not None and evidence.p_tost_adjusted <= alpha
    if evidence.p_adjusted <= alpha and excludes_zero:
        return Verdict("better" if evidence.gain > 0 else "worse", within_margin=small)
    if small and evidence.n >= FEWEST_FOR_EQUIVALENCE:
        return Verdict("equivalent", within_margin=True)
    if family_size * smallest_p(evidence.n) > alpha:
        return Verdict("undecided", "design_cannot_reach")
    if (evidence.p_adjusted <= alpha) or (evidence.p_value > alpha and excludes_zero):
        return Verdict("undecided", "test_ci_conflict")
    return Verdict("undecided", "insufficient_evidence")


def answer(asks: str, verdict: Verdict) -> str:
    """A claim's answer: supported, refuted, undecided or invalid.

    `better` and `less_hurt` are supported by better and refuted by worse or equivalent;
    `equivalent` is supported by equivalent (or a difference within the margin) and refuted by a
    difference that is not within it.
    """
    if verdict.verdict in ("undecided", "invalid"):
        return verdict.verdict
    if asks == "equivalent":
        return "supported" if verdict.within_margin else "refuted"
    return "supported" if verdict.verdict == "better" else "refuted"
