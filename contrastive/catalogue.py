"""Which losses and encoders can be named, and which settings does each loss take?

Names alone, without PyTorch: a study's driver plans, searches and reports by them, and a mistake in
a study file is told at once. The functions behind the names are `losses.LOSSES` and
`encoders.ENCODERS`; the tests hold both sides against each other.
"""

from __future__ import annotations

import difflib

_POSITIVES = ("temperature", "labels", "aggregation", "false_negatives")

LOSS_OPTIONS: dict[str, tuple[str, ...]] = {
    "contrastive": _POSITIVES,
    "debiased_neg": (*_POSITIVES, "tau_plus", "floor"),
    "debiased_pos": (*_POSITIVES, "tau_plus", "floor"),
    "debiased_both": (*_POSITIVES, "tau_plus", "floor", "alpha"),
    "hard_neg": (*_POSITIVES, "tau_plus", "floor", "beta"),
    "supcon": ("temperature", "labels"),
    "triplet": ("labels", "margin"),
}

ENCODER_NAMES = ("small_cnn", "resnet18", "resnet50")


def accepted(name: str) -> tuple[str, ...]:
    """The keyword arguments of the loss called `name`, `labels` among them where it reads labels.

    Raises:
        ValueError: there is no such loss; the message names the nearest one.

    Example:
        >>> "beta" in accepted("hard_neg"), "beta" in accepted("contrastive")
        (True, False)
    """
    if name not in LOSS_OPTIONS:
        near = difflib.get_close_matches(name, LOSS_OPTIONS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"loss {name!r} is unknown; allowed: {', '.join(LOSS_OPTIONS)}{hint}")
    return LOSS_OPTIONS[name]
