"""Numbers, comparisons and answers in words."""

from __future__ import annotations

from analysis.wording.missing_numbers import absent
from analysis.wording.numbers import (
    after_difference,
    after_score,
    base_metric,
    difference,
    is_percent,
    number,
    p_number,
    score,
    with_unit,
)
from analysis.wording.sentences import (
    claim_sentence,
    early_minus_late,
    finding,
    guessed_directions,
    next_study,
    one_line_verdicts,
    selection_note,
)

__all__ = [
    "absent",
    "after_difference",
    "after_score",
    "base_metric",
    "claim_sentence",
    "difference",
    "early_minus_late",
    "finding",
    "guessed_directions",
    "is_percent",
    "next_study",
    "number",
    "one_line_verdicts",
    "p_number",
    "score",
    "selection_note",
    "with_unit",
]
