"""The search space of one arm: its dimensions, their order, their bounds, and draws from it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from study.design.study import Parameter
from study.workload import Settings, Workload, integral

MOST_POINTS = 10_000
_MOST_CHOICES = 1000  # combinations looked at to find out whether a dimension can count

Pick = Callable[[str, Parameter], Any]


class SearchSpace(Mapping[str, Parameter]):
    """The dimensions that the search draws for an arm, each after those that its `when` names.

    Args:
        dimensions: by the name of the setting.
        fixed: settings of trial, arm and condition.
        workload: tells which settings are whole numbers, and their defaults.
    """

    def __init__(
        self, dimensions: Mapping[str, Parameter], *, fixed: Settings, workload: Workload
    ) -> None:
        self._dimensions = ordered(dimensions)
        self.fixed, self._workload = fixed, workload
        self._set = dict(workload.defaults) | fixed

    def __getitem__(self, name: str) -> Parameter:
        return self._dimensions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dimensions)

    def __len__(self) -> int:
        return len(self._dimensions)

    @property
    def conditional(self) -> bool:
        """Whether some dimensions exist only with some values of others."""
        return any(set(p.when) & set(self) for p in self.values())

    def integral(self, name: str) -> bool:
        """Whether the dimension is drawn in whole numbers."""
        return is_integral(name, self[name], self._workload)

    def draw(self, pick: Pick) -> Settings:
        """Pick a value for every dimension that is active, in order.

        Args:
            pick: gives a value for a name and its dimension (an Optuna trial's suggestion).
        """
        drawn: Settings = {}
        for name, parameter in self.items():
            if self._active(parameter, drawn):
                drawn[name] = pick(name, parameter)
        return drawn

    def random(self, seed: int) -> Settings:
        """A configuration drawn evenly; for checks, not for the search."""
        generator = random.Random(seed)

        def pick(name: str, parameter: Parameter) -> Any:
            if parameter.choices is not None:
                return generator.choice(parameter.choices)
            if self.integral(name):
                return generator.randint(int(parameter.low), int(parameter.high))
            return generator.uniform(parameter.low, parameter.high)

        return self.draw(pick)

    def first(self, declared: Sequence[Settings]) -> list[Settings]:
        """The declared first configurations as they apply to the arm, without repetitions.

        What the arm does not search is left out; what a configuration leaves open is completed with
        the default where that lies in the range, else it is drawn.
        """
        points: list[Settings] = []
        for configuration in declared:
            point: Settings = {}
            for name, parameter in self.items():
                if not self._active(parameter, point):
                    continue
                value = configuration.get(name, self._set.get(name))
                if parameter.holds(value):
                    point[name] = value
            if point not in points:
                points.append(point)
        return points

    def points(self) -> list[Settings] | None:
        """Every configuration, or None: a continuum, or more than 10,000."""
        points: list[Settings] = [{}]
        for name, parameter in self.items():
            values = self.values_of(name)
            if values is None:
                return None
            counts = [self._active(parameter, point) for point in points]
            if sum(len(values) if count else 1 for count in counts) > MOST_POINTS:
                return None
            points = [
                further
                for point, count in zip(points, counts, strict=True)
                for further in ([point | {name: value} for value in values] if count else [point])
            ]
        return points

    def values_of(self, name: str) -> list[Any] | None:
        """The values of a dimension in order, 10,001 at most; None for a continuum."""
        parameter = self[name]
        if parameter.choices is not None:
            return parameter.choices
        step = parameter.step or (1 if self.integral(name) else None)
        if step is None:
            return None
        count = int((parameter.high - parameter.low) / step + 1e-9) + 1
        values = [parameter.low + i * step for i in range(min(count, MOST_POINTS + 1))]
        return [self.tidy(name, value) for value in values]

    def tidy(self, name: str, value: float) -> float:
        """A drawn number without the residue of binary fractions: 0.3 is 0.3 on every grid."""
        return int(value) if self.integral(name) else float(f"{value:.12g}")

    def corners(self) -> list[tuple[str, Settings]]:
        """Settings at the ends of each dimension, to be checked before anything runs.

        Returns:
            pairs of a dimension's name and a full configuration with that dimension at one end.
        """
        base = self.middle()
        found = []
        for name, parameter in self.items():
            for value in parameter.choices or [parameter.low, parameter.high]:
                forced = self.fixed | base | {name: value}
                for other, values in parameter.when.items():
                    if other in self:
                        forced[other] = values[0]
                found.append((name, forced))
        return found

    def middle(self) -> Settings:
        """An ordinary configuration, so that a refusal with one end of a dimension is due to it."""
        return self.draw(self._middle)

    def _middle(self, name: str, parameter: Parameter) -> Any:
        if parameter.choices is not None:
            return parameter.choices[0]
        low, high = parameter.low, parameter.high
        middle = math.sqrt(low * high) if parameter.log else (low + high) / 2
        return round(middle) if self.integral(name) else middle

    def _active(self, parameter: Parameter, drawn: Settings) -> bool:
        """Whether the dimension counts, given everything set and drawn so far."""
        return all(
            (drawn[name] if name in drawn else self._set.get(name)) in values
            for name, values in parameter.when.items()
        )


def is_integral(name: str, parameter: Parameter, workload: Workload) -> bool:
    """Whether a setting is searched in whole numbers; by its bounds if its type is not known."""
    if name in workload.hints:
        return integral(workload.hints[name])
    return isinstance(parameter.low, int) and isinstance(parameter.high, int)


def ordered(dimensions: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The dimensions, each after those that its `when` names.

    Raises:
        ValueError: they name each other in a circle.
    """
    remaining, done = dict(dimensions), {}
    while remaining:
        ready = [n for n, p in remaining.items() if not (set(p.when) - {n}) & set(remaining)]
        if not ready:
            raise ValueError(f"`when` goes in a circle among {', '.join(sorted(remaining))}")
        for name in ready:
            done[name] = remaining.pop(name)
    return done


def searched(
    dimensions: Mapping[str, Parameter], *, taken: set[str], fixed: Settings, workload: Workload
) -> SearchSpace:
    """What is left of the study's space for one arm.

    Settings of the arm or of any condition leave the space: the conditions are what the arms are
    compared under, not something to adapt to. So do options that have no effect in the arm.

    Args:
        dimensions: of the study.
        taken: settings of the arm and of all conditions.
        fixed: settings of trial, arm and the condition of the search.
        workload: of the study.
    """
    left = {name: p for name, p in dimensions.items() if name not in taken}
    values = dict(workload.defaults) | fixed
    kept = {
        name: parameter
        for name, parameter in left.items()
        if _can_count(name, left, values, workload)
        and all(other in left or values.get(other) in v for other, v in parameter.when.items())
    }
    return SearchSpace(kept, fixed=fixed, workload=workload)


def _can_count(
    name: str, left: Mapping[str, Parameter], values: Settings, workload: Workload
) -> bool:
    """Whether the setting has an effect with any of the texts that may be drawn."""
    texts = {
        other: p.choices
        for other, p in left.items()
        if p.choices and any(isinstance(choice, str) for choice in p.choices)
    }
    combinations = itertools.islice(itertools.product(*texts.values()), _MOST_CHOICES)
    return any(
        workload.applies(name, values | dict(zip(texts, combination, strict=True)))
        for combination in combinations
    )
