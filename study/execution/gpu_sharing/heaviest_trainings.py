"""Which trainings of a study need the most memory of a card?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from contrastive.config import SETTINGS, TrainConfig, settings
from study.design import search_space
from study.design.constraints import satisfied
from study.design.study import Parameter, Settings, Study

# Trainings that differ in one of these cannot be compared by counting views: each is measured.
_KIND = tuple(
    name
    for name in SETTINGS
    if name
    in {
        "dataset",
        "dataset_path",
        "train_limit",
        "imbalance",
        "encoder",
        "projection_dim",
        "loss",
        "aggregation",
        "precision",
        "compile",
    }
)
_WEIGHTY = (*_KIND, "batch_size", "num_positives")
_POINTS = 9  # looked at in a range, its ends among them
_MOST = 20_000  # combinations looked at for an arm under a condition


def heaviest(study: Study) -> list[TrainConfig]:
    """Of each kind of training that the study can run, the one with the most views in a batch.

    Memory grows with the views of a batch, batch_size · (num_positives + 1); what else changes it
    (encoder, loss, data, precision) makes another kind. Constraints of the search are obeyed, all
    conditions are looked at: the winners are trained under each of them.
    """
    found: dict[tuple[Any, ...], tuple[int, Settings]] = {}
    for arm, condition in itertools.product(study.arms, study.conditions):
        for chosen in _configurations(study, arm, condition):
            kind = tuple(chosen[name] for name in _KIND)
            views = chosen["batch_size"] * (chosen["num_positives"] + 1)
            if kind not in found or views > found[kind][0]:
                found[kind] = (views, chosen)
    return [TrainConfig(**chosen) for _, chosen in found.values()]


def _configurations(study: Study, arm: str, condition: str) -> Iterator[Settings]:
    fixed = study.fixed(arm, condition)
    space = search_space.arm_space(study, arm)
    weighty = [name for name in space if name in _WEIGHTY]
    values = [_values(name, space[name]) for name in weighty]
    defaults = settings(TrainConfig())
    constraints = study.search.require if study.search else []
    for combination in itertools.islice(itertools.product(*values), _MOST):
        chosen = dict(zip(weighty, combination, strict=True))
        drawn = search_space.draw(
            space, fixed, lambda name, p, c=chosen: c.get(name, _ordinary(name, p))
        )
        full = defaults | fixed | drawn | study.conditions[condition]
        if all(satisfied(constraint, full) for constraint in constraints):
            yield full


def _values(name: str, parameter: Parameter) -> list[Any]:
    """The heavy end first, for the case that there are too many combinations."""
    if parameter.choices is not None:
        numbers = all(isinstance(choice, int | float) for choice in parameter.choices)
        return sorted(parameter.choices, reverse=True) if numbers else list(parameter.choices)
    width = parameter.high - parameter.low
    points = {
        search_space.tidy(name, parameter.low + width * i / (_POINTS - 1)) for i in range(_POINTS)
    }
    return sorted(points, reverse=True)


def _ordinary(name: str, parameter: Parameter) -> Any:
    """A value that has no part in the memory: the default, or else one of the range."""
    default = getattr(TrainConfig(), name)
    if parameter.holds(default):
        return default
    return parameter.choices[0] if parameter.choices is not None else parameter.low
