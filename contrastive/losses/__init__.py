"""Which losses can be compared, by name?

Every loss is a function of `views` (V, B, D), V views of each of B images, and keyword-only
settings; it returns a scalar in nats (`triplet`: in squared distance). To add one: a file with the
function, a line in `LOSSES` and one in `contrastive/catalogue.py`, its oracle in the tests, a row
in `docs/losses.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from contrastive.catalogue import accepted
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

__all__ = ["LOSSES", "accepted", "needs_two_labels", *LOSSES]


def needs_two_labels(name: str, *, false_negatives: str) -> bool:
    """Whether a batch whose images all have one label leaves this loss without a negative."""
    drops = "false_negatives" in accepted(name) and false_negatives == "drop"
    return name == "triplet" or drops
