"""The triplet loss: an anchor nearer to its class than to the others, by a margin."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contrastive.device import waits
from contrastive.losses.terms.anchors import same_label, unit_length
from contrastive.losses.terms.checks import check_labels, check_number, check_views


def triplet(views: Tensor, *, labels: Tensor | None = None, margin: float = 0.2) -> Tensor:
    """Triplet loss over all pairs of one class, each with its semi-hard negative.

    With embeddings of unit length, so that ‖a - b‖² = 2 - 2 aᵀb:

        L = mean over (a, p) of max(0, ‖a - p‖² - ‖a - n‖² + margin)

    p runs through all views of images of a's class but a itself; n is the nearest embedding of
    another class that is farther from a than p.

    Source: Schroff et al. 2015, arXiv:1503.03832, Eqs. 2-4.
    Departures: where no negative is farther than p, n is the farthest one, as in TensorFlow
        Addons; the paper is silent. A mean, where Eq. 3 has a sum. An unlabelled image has its own
        other views as positives and is a negative of all other images.

    Written here and not taken from a library: torch's `triplet_margin_loss` chooses no negatives,
    and the miners of pytorch-metric-learning list all (V·B)³ triplets. Here each anchor's
    negatives are sorted and searched, in O((V·B)²) memory.

    Args:
        views: (V, B, D) float, V >= 2 views of each of B >= 2 images; computed in float32 at least.
        labels: (B,) integers, needed; -1 for unlabelled.
        margin: > 0, in squared distance, whose largest value is 4.

    Returns:
        () loss in squared distance; `margin` when all embeddings coincide.

    Raises:
        ValueError: wrong shapes, fewer than 2 views or images, margin <= 0, no labels, or a batch
            with a single class.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
        >>> labels = torch.tensor([0, 1])
        >>> round(triplet(torch.stack([z, z]), labels=labels, margin=0.5).item(), 4)
        0.1
    """
    check_views(views)
    check_number("margin", margin, "a finite number > 0", margin > 0)
    same = same_label(check_labels(labels, views, "triplet"))
    if not waits(same.device) and bool(same.all()):
        raise ValueError("labels are all the same, so triplet has no negative; allowed: at least "
                         "two labels in a batch; try: a larger batch")  # fmt: skip
    v = views.shape[0]
    with torch.autocast(views.device.type, enabled=False):
        z = unit_length(views).flatten(0, 1)
        cosines = z @ z.T  # (V·B, V·B)
        same = same.repeat(v, v)
        nearest = _semi_hard(cosines.detach(), same)
        # ‖a - p‖² - ‖a - n‖² = 2 (aᵀn - aᵀp)
        loss = (2 * (cosines.gather(1, nearest) - cosines) + margin).clamp_min(0)
        is_pair = same.fill_diagonal_(False)
        return torch.where(is_pair, loss, 0.0).sum() / is_pair.sum()


def _semi_hard(cosines: Tensor, same: Tensor) -> Tensor:
    """For each anchor and each other embedding, the index of the semi-hard negative, (n, n)."""
    # Sorted by distance: negatives from near to far, then what is no negative.
    distances, order = cosines.neg().masked_fill_(same, math.inf).sort(dim=1)
    farther = torch.searchsorted(distances, cosines.neg(), right=True)
    farthest = (~same).sum(1, keepdim=True) - 1
    return order.gather(1, torch.minimum(farther, farthest))
