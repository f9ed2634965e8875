"""The losses, by name.

Every loss is a function of `views` (V, B, D), V views of each of B images, and keyword-only
settings; it returns a scalar in nats (`triplet`: in squared distance). To add one: a file with the
function, a line in `LOSSES` and one in `contrastive/catalogue.py`, its oracle in the tests, a row
in `docs/losses.md`. A loss of the user's own, `module:function`, needs no edit here.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from contrastive.catalogue import LOSS_OPTIONS, accepted, part
from contrastive.losses.debiased_both import debiased_both
from contrastive.losses.debiased_negatives import debiased_neg
from contrastive.losses.debiased_positives import debiased_pos
from contrastive.losses.hard_negatives import hard_neg
from contrastive.losses.nt_xent import contrastive
from contrastive.losses.supervised_contrastive import supcon
from contrastive.losses.triplets import triplet

LOSSES: dict[str, Callable[..., Tensor]] = {
    "contrastive": contrastive,
    "debiased_neg": debiased_neg,
    "debiased_pos": debiased_pos,
    "debiased_both": debiased_both,
    "hard_neg": hard_neg,
    "supcon": supcon,
    "triplet": triplet,
}

__all__ = ["LOSSES", "accepted", "loss_named", "needs_labels", "needs_two_labels", *LOSSES]


def loss_named(name: str) -> Callable[..., Tensor]:
    """The loss's function: built in, published or the user's own.

    Raises:
        ValueError: unknown, or its import fails.
    """
    return LOSSES[name] if name in LOSSES else part("losses", name, LOSS_OPTIONS)


def needs_labels(name: str, *, false_negatives: str) -> bool:
    """Whether the loss is given the labels: where it uses them, or is the user's and takes them."""
    takes = accepted(name)
    optional = name in LOSSES and "false_negatives" in takes
    return "labels" in takes and (not optional or false_negatives == "drop")


def needs_two_labels(name: str, *, false_negatives: str) -> bool:
    """Whether a batch whose images all have one label leaves this loss without a negative."""
    if name not in LOSSES:
        return False
    drops = "false_negatives" in accepted(name) and false_negatives == "drop"
    return name == "triplet" or drops
