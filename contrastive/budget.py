"""How long is a training: how many epochs, and how much of the last one?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

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
