"""The similarities around each anchor of a batch: to its positive and to its negatives."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from contrastive.device import waits
from contrastive.losses.terms.checks import (
    AGGREGATIONS,
    FALSE_NEGATIVES,
    check_choice,
    check_labels,
    check_temperature,
    check_views,
)
from contrastive.losses.terms.similarities import similarities


class Anchors(NamedTuple):
    """Logarithms of the similarities h = exp(zᵀz'/t) around each anchor.

    P counts the ordered pairs of views: 2 for `pos_grouping`, V(V - 1) for `loss_combination`.
    """

    log_positive: Tensor  # (P, B) log pos
    log_mean_positive: Tensor  # (P, B) log p̄, the mean over the anchor's M positives
    log_sums: tuple[Tensor, ...]  # each (P, B): log S; of powers of h where `powers` asks for them
    count: Tensor | float  # N: a number, or (B,) with false_negatives="drop"

    def log_count(self) -> Tensor | float:
        """log N, as a number or (B,)."""
        return math.log(self.count) if isinstance(self.count, float) else self.count.log()


def unit_length(views: Tensor) -> Tensor:
    """Embeddings of length 1, in float32 at least: 16 bits overflow at e^{1/t} for t < 0.09."""
    return F.normalize(views if views.dtype == torch.float64 else views.float(), dim=-1)


def anchors(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None,
    aggregation: str,
    false_negatives: str,
    powers: tuple[float, ...] = (1.0,),
) -> Anchors:
    """Positives and negatives of every anchor, from one product of all views that take part.

    Args:
        views: (V, B, D) float, V >= 2, B >= 2; scaled to unit length here.
        temperature: t > 0.
        labels: (B,) integers, read only with `false_negatives="drop"`; -1 equals no other label.
        aggregation: "pos_grouping": the pair of views (0, 1), the others being further positives
            of both; "loss_combination": all pairs, each with its own positive alone.
        false_negatives: "keep", or "drop": images with the anchor's label are no negatives.
        powers: for each a tensor of log-sums of h^power; (1,) gives log S.

    Raises:
        ValueError: wrong shapes, an unknown choice, t <= 0, missing labels, or a batch of one label
            whose false negatives are to be dropped.
    """
    check_views(views)
    check_temperature(temperature)
    check_choice("aggregation", aggregation, AGGREGATIONS)
    check_choice("false_negatives", false_negatives, FALSE_NEGATIVES)
    images = views.shape[1]
    count: Tensor | float = 2.0 * (images - 1)
    left_out = None
    if false_negatives == "drop":
        left_out = same_label(check_labels(labels, views, 'false_negatives="drop"'))
        count = _remaining(left_out, torch.promote_types(views.dtype, torch.float32))
    with torch.autocast(views.device.type, enabled=False):
        z = unit_length(views)
        paired = z if aggregation == "loss_combination" else z[:2]
        positive, sums = similarities(
            paired, temperature=temperature, powers=powers, left_out=left_out
        )
        # S of the pair (i, j): the images of the anchor's own view, and those of the other.
        sums = tuple(_ordered_pairs(torch.logaddexp(s.diagonal().T.unsqueeze(1), s)) for s in sums)
        positive = _ordered_pairs(positive)
        further = z[paired.shape[0] :]
        return Anchors(
            log_positive=positive,
            log_mean_positive=_log_mean(positive, paired, further, temperature),
            log_sums=sums,
            count=count,
        )


def same_label(labels: Tensor) -> Tensor:
    """(B, B) bool: is c the image b, or one with b's label? -1 is no label."""
    same = (labels.unsqueeze(1) == labels) & (labels != -1)
    return same.fill_diagonal_(True)


def _remaining(left_out: Tensor, dtype: torch.dtype) -> Tensor:
    """N: how many negatives each anchor keeps, (B,)."""
    # Sharing a label is an equivalence, so one anchor without a negative means a single class in
    # the batch, and no anchor has one. A GPU is not waited for to find that out: there the loss of
    # such a batch is infinite.
    if not waits(left_out.device) and bool(left_out.all()):
        raise ValueError(
            'false_negatives="drop" leaves no anchor a negative: all images of the batch have the '
            "same label; allowed: at least two labels in a batch; try: a larger batch"
        )
    return 2.0 * (~left_out).sum(1, dtype=dtype)


def _ordered_pairs(x: Tensor) -> Tensor:
    """The entries i ≠ j of (V, V, B) as (V(V - 1), B), a view without an index tensor."""
    v, _, images = x.shape
    # Drop [0, 0]; then every (V+1)-th entry is the next [i, i], the last of a row of V + 1.
    return x.reshape(v * v, images)[1:].view(v - 1, v + 1, images)[:, :-1].flatten(0, 1)


def _log_mean(positive: Tensor, paired: Tensor, further: Tensor, temperature: float) -> Tensor:
    """log p̄ of each anchor, (P, B): the mean of h over its positive and the further ones."""
    if not len(further):
        return positive
    others = (paired.unsqueeze(1) * further).sum(-1) / temperature  # (2, V - 2, B)
    all_of_them = torch.cat([positive.unsqueeze(1), others], dim=1)
    return all_of_them.logsumexp(1) - math.log(1 + len(further))
