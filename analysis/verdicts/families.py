"""The hypotheses of a family of comparisons, and which of them fall.

A claim "B above A by more than nothing" has two, H1: θ ≤ 0 and H2: θ ≥ δ, with θ the mean
difference, positive where B is better, and δ the margin (0 without one). All hypotheses of all
claims are tested together; a verdict is read off the ones that fall (`analysis.verdicts.rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analysis.inputs.replicates import in_order
from analysis.statistics import RNG_SEED, Paired, holm, sign_flip
from analysis.statistics.looks import decided_at, e_value
from analysis.statistics.max_t import adjusted_p, statistics, whole_numbers

# A hypothesis: θ ≤ or ≥ so many margins. Without a margin, margins are 0.
Null = tuple[str, int]
AT_MOST_ZERO, AT_LEAST_ZERO = ("≤", 0), ("≥", 0)
AT_LEAST_MARGIN, AT_MOST_MARGIN = ("≥", 1), ("≤", 1)
AT_MOST_MINUS_MARGIN, AT_LEAST_MINUS_MARGIN = ("≤", -1), ("≥", -1)


@dataclass(frozen=True)
class Question:
    """One comparison of a family.

    `asks` is better, less_hurt or equivalent, or None where nothing is claimed; `sign` is 1 where
    higher is better; `units` label the pairs; `invalid` says why nothing may fall.
    """

    asks: str | None
    paired: Paired
    units: Sequence
    sign: int
    margin: float | None
    invalid: str | None

    @property
    def nulls(self) -> tuple[Null, ...]:
        if self.asks == "equivalent":
            return (
                AT_MOST_MINUS_MARGIN, AT_LEAST_MARGIN, AT_MOST_MARGIN, AT_LEAST_MINUS_MARGIN
            )  # fmt: skip
        if self.asks:
            return AT_MOST_ZERO, AT_LEAST_MARGIN
        inside = () if self.margin is None else (AT_MOST_MINUS_MARGIN, AT_LEAST_MARGIN)
        return AT_MOST_ZERO, AT_LEAST_ZERO, *inside


@dataclass(frozen=True)
class Outcome:
    """What became of one hypothesis; `at` is the look, in units, at which it fell."""

    statistic: float
    p_adjusted: float
    fell: bool
    at: int | None = None


def decide_family(
    questions: Sequence[Question],
    *,
    alpha: float,
    correction: str = "max_t",
    looks: Sequence[int] = (),
    seed: int = RNG_SEED,
) -> list[dict[Null, Outcome]]:
    """Test all hypotheses of a family together: for each question null -> what became of it.

    An invalid question stays in the family with the scores that it has, and its p is 1.

    Args:
        correction: `max_t`, or `holm` over all hypotheses.
        looks: planned looks in units; a hypothesis falls by the group-sequential test, and beyond
            the last look by the e-process. p is not adjusted for looks.
    """
    rows = [(i, null) for i, q in enumerate(questions) for null in q.nulls]
    if not rows:
        return [{} for _ in questions]
    units = in_order({unit for q in questions for unit in q.units})
    x = np.array([_values(questions[i], null, units) for i, null in rows]).reshape(len(rows), -1)
    invalid = np.array([questions[i].invalid is not None for i, _ in rows])
    if correction == "holm":
        p = np.array(holm([None if bad else _alone(r, seed) for r, bad in zip(x, invalid)]))
    else:
        p = adjusted_p(x, seed=seed)[0] if x.shape[1] else np.ones(len(rows))
    p[invalid] = 1
    at = [None] * len(rows)
    if looks:
        at = decided_at(x[:, : looks[-1]], looks, alpha=alpha, seed=seed)
        if x.shape[1] > looks[-1]:
            at = _continued(x, at, len(questions), alpha)
        fell = [look is not None for look in at]
    else:
        fell = list(p <= alpha)
    found: list[dict[Null, Outcome]] = [{} for _ in questions]
    for (i, null), t, p_, f, look, bad in zip(
        rows, statistics(x), p, fell, at, invalid, strict=True
    ):
        found[i][null] = Outcome(float(t), float(p_), bool(f) and not bad, look)
    return found


def _values(question: Question, null: Null, units: Iterable) -> np.ndarray:
    """The units' differences turned so that the null says: their mean is at most 0."""
    side, margins = null
    edge = Fraction(str(question.margin or 0)) * margins
    turn = 1 if side == "≤" else -1
    own = {
        unit: turn * (question.sign * d - edge)
        for unit, d in zip(question.units, question.paired.exact, strict=True)
    }
    return whole_numbers([own.get(unit) for unit in units])


def _alone(x: np.ndarray, seed: int) -> float:
    """One-sided p of one hypothesis; Holm over both of m claims is m times the two-sided p."""
    own = x[x != 0]
    return sign_flip(own, seed=seed)[0] / 2 if len(own) and own.sum() > 0 else 1.0


def _continued(x: np.ndarray, at: list, m: int, alpha: float) -> list:
    """Beyond the plan: a hypothesis that stood falls where E ≥ m/α."""
    n = x.shape[1]
    return [
        look or (n if row.sum() > 0 and e_value(row[row != 0]) >= m / alpha else None)
        for row, look in zip(x, at, strict=True)
    ]
