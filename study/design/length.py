"""How many epochs does a training of the study have? A budget of views tells only with the data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contrastive.config import TrainConfig
from contrastive.training.length import extent
from study.data import train_count
from study.design import search_space
from study.design.study import Parameter, Study


def planned_epochs(config: TrainConfig) -> int:
    """Epochs of a training that is not stopped; with a budget of seconds, the most it can have.

    Raises:
        DataError: a budget of views, and the dataset cannot be read or is smaller than a batch.
    """
    if config.budget is None or config.budget.views is None:
        return config.epochs
    return extent(config, train_count(config)).epochs


def epochs_of(
    study: Study, arm: str, condition: str, *, data: bool = True
) -> tuple[int, int] | None:
    """The fewest and the most epochs that trainings of an arm can have, whatever is drawn.

    They differ where views are budgeted and `num_positives` or `batch_size` is searched, and with
    a budget of seconds, which promises one epoch, cut short or not.

    Args:
        study: whose single settings are right.
        arm, condition: where in the design.
        data: look at the dataset if need be.

    Returns:
        None where the settings are impossible, or where only the dataset could tell and it is not
        to be looked at or cannot be read.
    """
    settings = study.fixed(arm, condition)
    try:
        config = TrainConfig(**settings)
        if config.budget is not None and config.budget.seconds is not None:
            return 1, config.epochs
        if config.budget is None or config.budget.views is None:
            return config.epochs, config.epochs
        if not data:
            return None
        space = search_space.arm_space(study, arm)
        dimensions = {n: space[n] for n in ("num_positives", "batch_size") if n in space}
        drawn = itertools.product(*([None, *_values(p)] for p in dimensions.values()))
        found = [
            planned_epochs(TrainConfig(**(settings | _given(dimensions, values))))
            for values in drawn
        ]
    except ValueError:  # impossible settings or data: told elsewhere
        return None
    return min(found), max(found)


def timed(study: Study, condition: str) -> bool:
    """Whether the trainings under a condition have a budget of seconds."""
    budgets = (study.fixed(arm, condition).get("budget") for arm in study.arms)
    return any(isinstance(b, Mapping) and b.get("seconds") is not None for b in budgets)


def _given(names: Iterable[str], values: Sequence[Any]) -> dict[str, Any]:
    """The drawn values; None stands for a dimension that is not active."""
    return {n: v for n, v in zip(names, values, strict=True) if v is not None}


def _values(parameter: Parameter) -> Sequence[Any]:
    if parameter.choices is not None:
        return parameter.choices
    return range(int(parameter.low), int(parameter.high) + 1, int(parameter.step or 1))
