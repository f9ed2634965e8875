"""Comparisons of arms and the verdicts on them."""

from __future__ import annotations

from analysis.verdicts.comparisons import (
    CONTROLS,
    Rules,
    answers,
    compare,
    contrasts_of_claims,
    other_contrasts,
)
from analysis.verdicts.looks import decide_at_look
from analysis.verdicts.pairing import Contrast, Pairs, Scores
from analysis.verdicts.rules import REASONS, Verdict

__all__ = [
    "CONTROLS",
    "REASONS",
    "Contrast",
    "Pairs",
    "Rules",
    "Scores",
    "Verdict",
    "answers",
    "compare",
    "contrasts_of_claims",
    "decide_at_look",
    "other_contrasts",
]
