"""Every row of the protocol's table of verdicts."""

from __future__ import annotations

import pytest

from analysis.verdicts.rules import Evidence, Verdict, answer, judge


def evidence(**changes) -> Evidence:
    basis = {"n": 8, "gain": 0.03, "ci_low": 0.01, "ci_high": 0.05, "p_value": 0.0078,
             "p_adjusted": 0.0234, "p_tost_adjusted": None, "invalid": None}  # fmt: skip
    return Evidence(**(basis | changes))


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ({}, "better", None),
        ({"gain": -0.03, "ci_low": -0.05, "ci_high": -0.01}, "worse", None),
        ({"ci_low": -0.01, "p_adjusted": 0.4, "p_value": 0.2, "p_tost_adjusted": 0.01},
         "equivalent", None),
        ({"n": 5, "ci_low": -0.01, "p_adjusted": 0.4, "p_value": 0.2, "p_tost_adjusted": 0.01},
         "undecided", "design_cannot_reach"),
        ({"n": 6, "p_value": 0.031, "p_adjusted": 0.094}, "undecided", "design_cannot_reach"),
        ({"ci_low": -0.01, "p_value": 0.2, "p_adjusted": 0.4}, "undecided",
         "insufficient_evidence"),
        ({"p_value": 0.02, "p_adjusted": 0.06}, "undecided", "insufficient_evidence"),
        ({"ci_low": -0.001}, "undecided", "test_ci_conflict"),
        ({"p_value": 0.07, "p_adjusted": 0.2}, "undecided", "test_ci_conflict"),
        ({"invalid": "zero_variance"}, "invalid", "zero_variance"),
    ],
)  # fmt: skip
def test_verdict(changes, verdict, reason):
    found = judge(evidence(**changes), alpha=0.05, family_size=3)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_a_small_but_sure_difference_is_within_the_margin():
    found = judge(evidence(p_tost_adjusted=0.01), alpha=0.05, family_size=3)
    assert found == Verdict("better", None, True)


@pytest.mark.parametrize(
    ("asks", "verdict", "within", "expected"),
    [
        ("better", "better", False, "supported"),
        ("better", "worse", False, "refuted"),
        ("better", "equivalent", True, "refuted"),
        ("less_hurt", "undecided", False, "undecided"),
        ("better", "invalid", False, "invalid"),
        ("equivalent", "equivalent", True, "supported"),
        ("equivalent", "better", True, "supported"),
        ("equivalent", "better", False, "refuted"),
    ],
)
def test_answers_to_claims(asks, verdict, within, expected):
    assert answer(asks, Verdict(verdict, None, within)) == expected
