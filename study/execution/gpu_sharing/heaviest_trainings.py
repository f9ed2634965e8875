"""The heaviest trainings of a study: those that need the most memory of a card."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from study.design import Arm, Parameter, Study, arms_of, satisfied
from study.workload import Settings

_POINTS = 9  # looked at in a range, its ends among them
_MOST = 20_000  # combinations looked at for an arm under a condition


def heaviest(study: Study) -> list[Settings]:
    """Of each kind of training that the study can run, the one whose size is the largest.

    The workload says what makes a kind, and how memory grows within it. Constraints of the search
    are respected; all conditions are looked at, since winners are trained under each of them.
    """
    found: dict[tuple[Any, ...], tuple[float, Settings]] = {}
    for arm, condition in itertools.product(arms_of(study).values(), study.conditions):
        for settings in _configurations(study, arm, condition):
            kind, size = study.trains.weight(settings)
            if kind not in found or size > found[kind][0]:
                found[kind] = (size, settings)
    return [settings for _, settings in found.values()]


def _configurations(study: Study, arm: Arm, condition: str) -> Iterator[Settings]:
    space, weighty = arm.space, set(study.trains.weight_settings)
    names = [name for name in space if name in weighty]
    values = [_values(arm, name, space[name]) for name in names]
    constraints = study.search.require if study.search else []

    def ordinary(name: str, parameter: Parameter) -> Any:
        """A value that has no part in the memory: the default, or else one of the range."""
        default = study.trains.defaults.get(name)
        if parameter.holds(default):
            return default
        return parameter.choices[0] if parameter.choices is not None else parameter.low

    for combination in itertools.islice(itertools.product(*values), _MOST):
        chosen = dict(zip(names, combination, strict=True))
        drawn = space.draw(lambda name, p, c=chosen: c[name] if name in c else ordinary(name, p))
        settings = arm.complete(condition, drawn)
        if all(satisfied(constraint, settings) for constraint in constraints):
            yield settings


def _values(arm: Arm, name: str, parameter: Parameter) -> list[Any]:
    """The heavy end first, for the case that there are too many combinations."""
    if parameter.choices is not None:
        numbers = all(isinstance(choice, int | float) for choice in parameter.choices)
        return sorted(parameter.choices, reverse=True) if numbers else list(parameter.choices)
    width = parameter.high - parameter.low
    points = {
        arm.space.tidy(name, parameter.low + width * i / (_POINTS - 1)) for i in range(_POINTS)
    }
    return sorted(points, reverse=True)
