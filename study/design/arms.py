"""The arms of a study, resolved: settings under each condition, search space, length."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from study.design.constraints import satisfied
from study.design.search_space import searched
from study.design.seeds import derive
from study.design.study import Parameter, Study
from study.workload import Settings, Workload

_MOST_LENGTHS = 10_000  # values of one dimension that lengths are computed for


class Arm:
    """One arm, resolved once: what is fixed, what is searched, how long its trainings are.

    Args:
        study: with its workload.
        name: of the arm.
    """

    def __init__(self, study: Study, name: str) -> None:
        self.name, self.workload = name, study.trains
        self.settings = {c: study.fixed(name, c) for c in study.conditions}
        self.fixed = self.settings[study.tuned_under]
        self._search, self._tuned_under = study.search, study.tuned_under
        self._conditions = study.conditions
        self.space = searched(
            study.search.space if study.search else {},
            taken=set(study.arms[name]).union(*study.conditions.values()),
            fixed=self.fixed,
            workload=self.workload,
        )
        self.first = self.space.first(study.search.first) if study.search else []

    def complete(self, condition: str, drawn: Settings | None = None) -> Settings:
        """Every setting of a training under a condition, with what the search drew.

        Raises:
            ValueError: they cannot be trained.
        """
        # What a condition sets is never searched; it overrides all the same.
        chosen = self.settings[condition] | (drawn or {}) | self._conditions[condition]
        return self.workload.complete(chosen)

    def admits(self, drawn: Settings) -> bool:
        """Whether a configuration of the search satisfies the study's constraints."""
        if not self._search or not self._search.require:
            return True
        settings = self.complete(self._tuned_under, drawn)
        return all(satisfied(constraint, settings) for constraint in self._search.require)

    @functools.cached_property
    def sameness(self) -> str:
        """Equal for arms that train the same under every condition."""
        space = {name: parameter.model_dump() for name, parameter in self.space.items()}
        return repr([space, [self.effective(condition) for condition in self.settings]])

    def effective(self, condition: str) -> Settings:
        """The settings that a training starts from, without those that have no effect in it."""
        found = self.workload.complete(self.space.middle() | self.settings[condition])
        if any(p.choices and isinstance(p.choices[0], str) for p in self.space.values()):
            return found
        return {name: value for name, value in found.items() if self.workload.applies(name, found)}

    @functools.cache  # noqa: B019 - arms live as long as their study
    def length(self, condition: str, *, data: bool = True) -> tuple[int, int] | None:
        """The fewest and the most epochs that trainings can have, whatever is drawn.

        Args:
            condition: under which they train.
            data: look at the dataset if need be.

        Returns:
            None where the settings are impossible, where the workload plans no epochs, or where
            only the dataset could tell and it is not to be looked at or cannot be read.
        """
        dimensions = {n: self.space[n] for n in self.workload.length_settings if n in self.space}
        found = []
        try:
            for values in itertools.product(*([None, *_values(p)] for p in dimensions.values())):
                given = {n: v for n, v in zip(dimensions, values, strict=True) if v is not None}
                found.append(self.workload.length(self.settings[condition] | given, data=data))
        except ValueError:  # impossible settings or data: reported elsewhere
            return None
        if any(length is None for length in found):
            return None
        return min(fewest for fewest, _ in found), max(most for _, most in found)

    def timed(self, condition: str) -> bool:
        """Whether seconds end the trainings under a condition."""
        return self.workload.timed(self.settings[condition])


def arms_of(study: Study) -> dict[str, Arm]:
    """The arms of a study by name; resolved at the first call.

    Raises:
        ValueError: the space's `when` go in a circle, or the workload cannot be found.
    """
    if study._arms is None:
        study._arms = {name: Arm(study, name) for name in study.arms}
    return study._arms


def twin_seed(study: Study, name: str, seed: int) -> int | None:
    """The seed that an arm takes in place of a shared one if it trains the same as an earlier arm.

    Arms share their seeds, which makes their runs pairs. Arms that are the same under different
    names (an A/A study) would so compare each run with itself: each of them draws its own trials,
    initial weights and data order, and its scores vary as those of any other arm do.

    Returns:
        None for an arm that differs from all earlier ones.
    """
    arms = arms_of(study)
    earlier = list(arms)[: list(arms).index(name)]
    twins = sum(arms[other].sameness == arms[name].sameness for other in earlier)
    return derive(seed, "twin", twins) % 2**31 if twins else None  # in the range of all libraries


def planned_epochs(workload: Workload, settings: Settings) -> int | None:
    """Epochs of a training that is not stopped; with a budget of seconds, the most it can have."""
    length = workload.length(settings)
    return length[1] if length else None


def timed(study: Study, condition: str) -> bool:
    """Whether seconds end the trainings of any arm under a condition."""
    return any(arm.timed(condition) for arm in arms_of(study).values())


def _values(parameter: Parameter) -> Sequence[Any]:
    if parameter.choices is not None:
        return parameter.choices
    found = range(int(parameter.low), int(parameter.high) + 1, int(parameter.step or 1) or 1)
    if len(found) <= _MOST_LENGTHS:
        return found
    return [*found[:: len(found) // _MOST_LENGTHS], found[-1]]
