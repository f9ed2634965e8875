"""How long is a training: how many epochs, and how much of the last one?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from contrastive.data import DataError

if TYPE_CHECKING:
    from contrastive.config import TrainConfig

BUDGETS = ("epochs", "views", "seconds")
ALLOWED = "one of {epochs: N}, {views: N} and {seconds: S}, N whole numbers, all above 0"


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Budget:
    """What one training may spend, in one of three units.

    Attributes:
        epochs: passes over the training split.
        views: images that the encoder sees, M + 1 for each image of a batch. The training ends
            with the step that reaches them, so arms of different M spend the same.
        seconds: of training on the device; evaluations are not counted. Not reproducible: another
            machine, or a busier one, gets further.

    Raises:
        pydantic.ValidationError: none or several of them, or one out of range.
    """

    epochs: Annotated[int, Field(ge=1, strict=True)] | None = None
    views: Annotated[int, Field(ge=1, strict=True)] | None = None
    seconds: Annotated[float, Field(gt=0, strict=True)] | None = None

    @model_validator(mode="after")
    def _one_unit(self) -> Budget:
        if sum(getattr(self, unit) is not None for unit in BUDGETS) != 1:
            raise ValueError(f"a budget is {ALLOWED}")
        return self


def conflict(settings: Mapping[str, Any]) -> str:
    """What is wrong with `epochs` and `budget` in settings as they were written, or nothing.

    Args:
        settings: of `TrainConfig`, only those that somebody wrote.
    """
    budget, epochs = settings.get("budget"), "epochs" in settings
    if not isinstance(budget, Mapping):
        return ""
    if "seconds" in budget and not epochs:
        return "a budget of seconds needs epochs too, as the limit that a fast machine may reach"
    if "seconds" not in budget and epochs:
        return f"a budget of {', '.join(budget)} says how long to train, and epochs says it again"
    return ""


class Extent(NamedTuple):
    """The length of a training.

    With a budget of seconds `epochs` is the limit, and time may end the training before.
    """

    epochs: int
    steps: int  # of a whole epoch
    last_steps: int  # of the last epoch, 1 to `steps`

    @property
    def all_steps(self) -> int:
        """Steps of the whole training."""
        return (self.epochs - 1) * self.steps + self.last_steps

    def steps_of(self, epoch: int) -> int:
        """Steps of one epoch, counted from 1."""
        return self.last_steps if epoch == self.epochs else self.steps


def extent(config: TrainConfig, images: int) -> Extent:
    """How long `config` trains on `images` images.

    Raises:
        DataError: not even one batch fits.
    """
    steps = batches(config, images)
    if config.budget is None or config.budget.views is None:
        return Extent(config.epochs, steps, steps)
    total = math.ceil(config.budget.views / views_per_step(config))
    epochs = math.ceil(total / steps)
    return Extent(epochs, steps, total - (epochs - 1) * steps)


def views_per_step(config: TrainConfig) -> int:
    """Views that the encoder sees in one step."""
    return config.batch_size * (config.num_positives + 1)


def batches(config: TrainConfig, images: int) -> int:
    """Batches per epoch; the incomplete last one is dropped, its images come in other epochs.

    Raises:
        DataError: not even one batch fits.
    """
    if config.batch_size > images:
        raise DataError(
            f"batch_size is {config.batch_size}, the training split has {images} images; "
            f"allowed: 2 to {images}; try: batch_size: {max(2, images // 4)}"
        )
    return images // config.batch_size
