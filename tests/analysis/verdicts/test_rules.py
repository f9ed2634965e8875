"""Every row of the protocol's table of verdicts."""

from __future__ import annotations

import pytest

from analysis.verdicts.families import (
    AT_LEAST_MARGIN,
    AT_LEAST_MINUS_MARGIN,
    AT_LEAST_ZERO,
    AT_MOST_MARGIN,
    AT_MOST_MINUS_MARGIN,
    AT_MOST_ZERO,
    Outcome,
)
from analysis.verdicts.rules import Evidence, Verdict, answer, judge

H1, H2 = AT_MOST_ZERO, AT_LEAST_MARGIN


def evidence(*fell, asks="better", **changes) -> Evidence:
    tested = {null: Outcome(1.0, 0.01, fell=True) for null in fell}
    basis = {"high": 0.02, "margin": 0.01, "can_reach": True, "invalid": None}
    return Evidence(asks=asks, tested=tested, **(basis | changes))


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (evidence(H1), "better", None),
        (evidence(H2), "not_better", None),
        (evidence(H2, high=-0.001), "worse", None),
        (evidence(H2, margin=None), "worse", None),
        (evidence(), "undecided", "insufficient_evidence"),
        (evidence(can_reach=False), "undecided", "design_cannot_reach"),
        (evidence(H1, invalid="zero_variance"), "invalid", "zero_variance"),
        (evidence(AT_MOST_MINUS_MARGIN, H2, asks="equivalent"), "equivalent", None),
        (evidence(H2, asks="equivalent"), "undecided", "insufficient_evidence"),
        (evidence(AT_MOST_MARGIN, asks="equivalent"), "better", None),
        (evidence(AT_LEAST_MINUS_MARGIN, H2, asks="equivalent"), "worse", None),
        (evidence(H1, asks=None), "better", None),
        (evidence(AT_LEAST_ZERO, asks=None), "worse", None),
        (evidence(AT_MOST_MINUS_MARGIN, H2, asks=None), "equivalent", None),
    ],
)
def test_verdict(found, verdict, reason):
    assert (judge(found).verdict, judge(found).reason) == (verdict, reason)


def test_a_small_but_sure_difference_is_within_the_margin():
    assert judge(evidence(H1, H2)) == Verdict("better", None, True)


@pytest.mark.parametrize(
    ("asks", "verdict", "expected"),
    [
        ("better", "better", "supported"),
        ("better", "worse", "refuted"),
        ("better", "not_better", "refuted"),
        ("less_hurt", "undecided", "undecided"),
        ("better", "invalid", "invalid"),
        ("equivalent", "equivalent", "supported"),
        ("equivalent", "better", "refuted"),
    ],
)
def test_answers_to_claims(asks, verdict, expected):
    assert answer(asks, Verdict(verdict)) == expected
