"""Which settings does the search draw for an arm, in which order, and within what bounds?"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from contrastive.catalogue import LOSS_OPTIONS, accepted
from contrastive.config import TrainConfig
from study.design.study import Parameter, Settings, Study

Space = dict[str, Parameter]

# What defines the data and how they are judged; searching these would change the contest itself.
NOT_SEARCHED = frozenset(
    {
        "dataset",
        "dataset_path",
        "split_seed",
        "train_limit",
        "imbalance",
        "epochs",
        "budget",
        "eval_every",
        "knn_neighbours",
    }
)
# The same for all arms too: on other images, or by another ruler, no arm is better than another.
NOT_OF_ARMS = NOT_SEARCHED - {"epochs"}
SEARCHABLE = tuple(f.name for f in fields(TrainConfig) if f.name not in NOT_SEARCHED)

MOST_POINTS = 10_000

_LOSS_OPTIONS = frozenset().union(*LOSS_OPTIONS.values())
_HINTS = get_type_hints(TrainConfig, include_extras=False)


def integral(name: str) -> bool:
    """Whether the setting is a whole number, so that a range of it is drawn in whole numbers."""
    hint = _HINTS[name]
    return hint is int or (int in get_args(hint) and float not in get_args(hint))


def unused_by(loss: str, name: str) -> bool:
    """Whether `name` is an option of some loss, but not of this one."""
    return name in _LOSS_OPTIONS and name not in accepted(loss)


def arm_space(study: Study, arm: str) -> Space:
    """The dimensions searched for an arm.

    Settings of the arm or of any condition leave the space: the conditions are what the arms are
    compared under, not something to adapt to. So do options that the arm's loss does not take.
    """
    if study.search is None:
        return {}
    fixed = set(study.arms[arm]).union(*study.conditions.values())
    settings = study.fixed(arm, study.tuned_under)
    space = {name: p for name, p in study.search.space.items() if name not in fixed}
    if "loss" not in space:
        loss = settings.get("loss", TrainConfig().loss)
        space = {name: p for name, p in space.items() if not unused_by(loss, name)}
    return {name: p for name, p in ordered(space).items() if _can_be_active(p, settings, space)}


def ordered(space: Mapping[str, Parameter]) -> Space:
    """The dimensions, each after those that its `when` asks about.

    Raises:
        ValueError: they ask about each other in a circle.
    """
    remaining, done = dict(space), {}
    while remaining:
        ready = [n for n, p in remaining.items() if not (set(p.when) - {n}) & set(remaining)]
        if not ready:
            raise ValueError(f"`when` goes in a circle among {', '.join(sorted(remaining))}")
        for name in ready:
            done[name] = remaining.pop(name)
    return done


def _can_be_active(parameter: Parameter, settings: Settings, space: Mapping[str, Any]) -> bool:
    return all(
        name in space or settings.get(name, getattr(TrainConfig(), name, None)) in values
        for name, values in parameter.when.items()
    )


def active(parameter: Parameter, settings: Settings) -> bool:
    """Whether the dimension counts, given everything set and drawn so far."""
    defaults = TrainConfig()
    return all(
        settings.get(name, getattr(defaults, name, None)) in values
        for name, values in parameter.when.items()
    )


def draw(space: Space, fixed: Settings, pick: Callable[[str, Parameter], Any]) -> Settings:
    """Pick a value for every dimension that is active, in order.

    Args:
        space: of `arm_space`.
        fixed: settings of trial, arm and condition.
        pick: gives a value for a name and its dimension (an Optuna trial's suggestion).
    """
    drawn: Settings = {}
    for name, parameter in space.items():
        if active(parameter, fixed | drawn):
            drawn[name] = pick(name, parameter)
    return drawn


def first_points(study: Study, arm: str) -> list[Settings]:
    """The declared `first` configurations as they apply to an arm, without repetitions.

    What an arm does not search is left out; what a configuration leaves open is completed with
    TrainConfig's default where that lies in the range, else it is drawn.
    """
    if study.search is None:
        return []
    space, fixed, defaults = (
        arm_space(study, arm),
        study.fixed(arm, study.tuned_under),
        TrainConfig(),
    )
    points: list[Settings] = []
    for declared in study.search.first:
        point: Settings = {}
        for name, parameter in space.items():
            if not active(parameter, fixed | point):
                continue
            value = declared.get(name, fixed.get(name, getattr(defaults, name)))
            if parameter.holds(value):
                point[name] = value
        if point not in points:
            points.append(point)
    return points


def all_points(space: Space, fixed: Settings) -> list[Settings] | None:
    """Every configuration of a space, or None: a continuum, or more than 10,000.

    Args:
        space: of `arm_space`.
        fixed: settings of trial, arm and condition.
    """
    points: list[Settings] = [{}]
    for name, parameter in space.items():
        values = grid_values(name, parameter)
        if values is None:
            return None
        counts = [active(parameter, fixed | point) for point in points]
        if sum(len(values) if count else 1 for count in counts) > MOST_POINTS:
            return None
        points = [
            further
            for point, count in zip(points, counts, strict=True)
            for further in ([point | {name: value} for value in values] if count else [point])
        ]
    return points


def grid_values(name: str, parameter: Parameter) -> list[Any] | None:
    """The values of a dimension in order, at most one more than 10,000; None for a continuum."""
    if parameter.choices is not None:
        return parameter.choices
    step = parameter.step or (1 if integral(name) else None)
    if step is None:
        return None
    count = int((parameter.high - parameter.low) / step + 1e-9) + 1
    values = [parameter.low + i * step for i in range(min(count, MOST_POINTS + 1))]
    return [tidy(name, value) for value in values]


def tidy(name: str, value: float) -> float:
    """A drawn number without the dust of binary fractions, so that 0.3 is 0.3 on every grid."""
    return int(value) if integral(name) else float(f"{value:.12g}")


def random_draw(study: Study, arm: str, seed: int) -> Settings:
    """A configuration of an arm, drawn evenly; for checks, not for the search."""
    numbers = random.Random(seed)

    def pick(name: str, parameter: Parameter) -> Any:
        if parameter.choices is not None:
            return numbers.choice(parameter.choices)
        if integral(name):
            return numbers.randint(int(parameter.low), int(parameter.high))
        return numbers.uniform(parameter.low, parameter.high)

    return draw(arm_space(study, arm), study.fixed(arm, study.tuned_under), pick)


def corners(space: Space, fixed: Settings) -> list[tuple[str, Settings]]:
    """Settings at the ends of each dimension, to be checked before anything runs.

    Returns:
        pairs of a dimension's name and a full configuration with that dimension at one end.
    """
    base = draw(space, fixed, _middle)
    found = []
    for name, parameter in space.items():
        for value in _ends(parameter):
            forced = fixed | base | {name: value}
            for other, values in parameter.when.items():
                if other in space:
                    forced[other] = values[0]
            found.append((name, forced))
    return found


def _ends(parameter: Parameter) -> list[Any]:
    return parameter.choices if parameter.choices is not None else [parameter.low, parameter.high]


def _middle(name: str, parameter: Parameter) -> Any:
    """An ordinary value, so that a refusal at an end is the end's doing."""
    if parameter.choices is not None:
        return parameter.choices[0]
    low, high = parameter.low, parameter.high
    middle = math.sqrt(low * high) if parameter.log else (low + high) / 2
    return round(middle) if integral(name) else middle
