"""The scores of a contrast, paired by unit, and the reasons why seeds cannot be paired.

A contrast of any kind (one condition, pooled conditions, a difference of differences, a window of
a curve) becomes two lists of scores paired by unit: the seed, or the replicate where the table has
replicates. A replicate's score is the mean over those of its seeds that both arms have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from analysis.inputs import Metric
from analysis.inputs.replicates import in_order
from analysis.inputs.results_table import Results, exact_value
from analysis.statistics import Score


@dataclass(frozen=True)
class Contrast:
    """Arm b against arm a. `conditions`: one, (from, to), or all of a pooled row.

    `asks` is what a claim asks: better, less_hurt or equivalent; None where nothing is claimed.
    """

    a: str
    b: str
    metric: Metric
    kind: str  # difference, interaction or curve
    conditions: tuple[str, ...]
    label: str  # the condition as shown
    asks: str | None = None


@dataclass(frozen=True)
class Pairs:
    """Scores of both arms on the seeds that both have.

    Attributes:
        units, a, b: paired by position; in a replicate the scores are means over its seeds.
        seeds: the paired seeds, all units together.
        within: for each unit the differences b - a of its seeds.
        dropped: one mapping {seed, arm, condition, reason} per score that was missing; reasons are
            diverged, failed, incomplete_curve and absent.
        flaw: why no verdict may rest on these scores, or None.
        broke: arm -> seeds whose run broke down, among the seeds that the arm tried.
        tried: seeds that both arms tried.
    """

    units: list
    a: list[Score]
    b: list[Score]
    seeds: list
    within: list[list[Score]]
    dropped: list[dict]
    flaw: str | None
    broke: dict[str, set]
    tried: list


class Scores:
    """The scores of a table, by arm, condition and metric."""

    def __init__(self, results: Results, planned_seeds: Iterable = ()):
        self.failures = results.failures
        self.unit = results.unit
        self.unit_of = results.unit_of
        self.planned = list(planned_seeds)
        key = ["arm", "condition", "metric"]
        self._final = dict(tuple(results.final.groupby(key, sort=False)))
        self._curves = dict(tuple(results.curves.groupby(key, sort=False)))
        self._cells: dict[tuple, tuple[dict, dict]] = {}

    def of(self, arm: str, condition: str, metric: Metric) -> dict[object, Score]:
        """seed -> score, for the seeds whose run finished."""
        return self._cell(arm, condition, metric)[0]

    def by_unit(self, scores: dict[object, Score]) -> dict[object, Score]:
        """unit -> mean score, from seed -> score."""
        found: dict[object, list[Score]] = {}
        for seed, score in scores.items():
            found.setdefault(self.unit_of(seed), []).append(score)
        return {unit: _mean(found[unit]) for unit in in_order(found)}

    def pairs(self, contrast: Contrast, *, chance: float | None = None) -> Pairs:
        """Pair a contrast by unit; with `chance`, a run that broke down scores that much."""
        sides = (contrast.a, contrast.b)
        cells = {
            (arm, c): self._cell(arm, c, contrast.metric)
            for arm in sides
            for c in contrast.conditions
        }
        seeds = self._seeds(cells)
        guess = None if chance is None else Fraction(str(chance))
        broke: dict[str, set] = {arm: set() for arm in sides}
        sides_of: tuple[dict, dict] = ({}, {})
        dropped, tried, flaws = [], [], []
        for seed in seeds:
            scores: dict[tuple, Score] = {}
            attempted = True
            for (arm, condition), (values, why) in cells.items():
                failure = self.failures.get((arm, condition, seed))
                if failure:
                    broke[arm].add(seed)
                if seed in values:
                    scores[arm, condition] = values[seed]
                    flaws.append(why.get(seed))
                    continue
                attempted &= bool(failure)
                if failure and guess is not None:
                    scores[arm, condition] = guess
                    continue
                reason = failure or why.get(seed, "absent")
                dropped.append({"seed": seed, "arm": arm, "condition": condition, "reason": reason})
            if attempted:
                tried.append(seed)
            if len(scores) == len(cells):
                for side, arm in zip(sides_of, sides, strict=True):
                    side[seed] = _combine(
                        [scores[arm, c] for c in contrast.conditions], contrast.kind
                    )
        flaw = next((f for f in flaws if f), None)
        a, b = (self.by_unit(side) for side in sides_of)
        within: dict[object, list[Score]] = {unit: [] for unit in a}
        for seed, score in sides_of[1].items():
            within[self.unit_of(seed)].append(score - sides_of[0][seed])
        return Pairs(
            list(a), list(a.values()), list(b.values()), list(sides_of[0]), list(within.values()),
            dropped, flaw, broke, tried,
        )  # fmt: skip

    def _seeds(self, cells: dict) -> list:
        seen = dict.fromkeys(self.planned)
        for (arm, condition), (values, why) in cells.items():
            seen |= dict.fromkeys(values) | dict.fromkeys(why)
            seen |= dict.fromkeys(
                seed for a, c, seed in self.failures if (a, c) == (arm, condition)
            )
        return in_order(seen)

    def _cell(self, arm: str, condition: str, metric: Metric) -> tuple[dict, dict]:
        key = (arm, condition, metric.text)
        if key not in self._cells:
            frame = (self._curves if metric.window else self._final).get(
                (arm, condition, metric.base)
            )
            if frame is None:
                self._cells[key] = ({}, {})
            else:
                self._cells[key] = _window(frame, metric) if metric.window else _finals(frame)
        return self._cells[key]


def _finals(frame) -> tuple[dict, dict]:
    values = {
        seed: exact_value(value, correct, total)
        for seed, value, correct, total in zip(
            frame["seed"].tolist(), frame["value"], frame["correct"], frame["total"], strict=True
        )
    }
    return values, _flawed(frame)


def _window(frame, metric: Metric) -> tuple[dict, dict]:
    """Mean over the epochs that the table has within the window; every seed needs all of them."""
    first, last = metric.window
    inside = frame[frame["epoch"].between(first, last)]
    epochs = set(inside["epoch"])
    values, why = {}, {seed: "incomplete_curve" for seed in frame["seed"].tolist()}
    for seed, run in inside.groupby("seed", sort=False):
        if set(run["epoch"]) == epochs and {first, last} <= epochs:
            scores = [
                exact_value(*row)
                for row in zip(run["value"], run["correct"], run["total"], strict=True)
            ]
            values[seed] = _mean(scores)
            why.pop(seed, None)
    return values, why | _flawed(inside)


def _flawed(frame) -> dict:
    flawed = frame[frame["flaw"].notna()]
    return dict(zip(flawed["seed"].tolist(), flawed["flaw"], strict=True))


def _combine(scores: list[Score], kind: str) -> Score:
    if kind == "interaction":
        before, after = scores
        return after - before
    return _mean(scores)


def _mean(scores: list[Score]) -> Score:
    if len(scores) == 1:
        return scores[0]
    if all(isinstance(score, Fraction) for score in scores):
        return sum(scores, Fraction(0)) / len(scores)
    return float(np.mean([float(score) for score in scores]))
