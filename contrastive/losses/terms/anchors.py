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
    NEGATIVES,
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
    whole: float  # N before anything was dropped
    log_whole: Tensor | None  # (P, B): log S before anything was dropped; None: nothing was
    log_own: Tensor | float | None  # log h(anchor, anchor); None: the anchor is not among the views

    def log_count(self) -> Tensor | float:
        """log N, as a number or (B,)."""
        return math.log(self.count) if isinstance(self.count, float) else self.count.log()


def full_precision(views: Tensor) -> Tensor:
    """Embeddings in float32 at least: 16 bits overflow at e^{1/t} for t < 0.09."""
    return views if views.dtype == torch.float64 else views.float()


def unit_length(views: Tensor) -> Tensor:
    """Embeddings of length 1, in float32 at least."""
    return F.normalize(full_precision(views), dim=-1)


def anchors(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None,
    aggregation: str,
    false_negatives: str,
    negatives: str,
    normalise: bool,
    powers: tuple[float, ...] = (1.0,),
    positive_power: float = 0.0,
    whole_batch: bool = False,
) -> Anchors:
    """Positives and negatives of every anchor, from one product of all views that take part.

    Args:
        views: (V, B, D) float, V >= 2, B >= 2.
        temperature: t > 0.
        labels: (B,) integers, read only with `false_negatives="drop"`; -1 equals no other label.
        aggregation: "pos_grouping": the pair of views (0, 1), the others being further positives
            of both; "loss_combination": all pairs, each with its own positive alone.
        false_negatives: "keep", or "drop": images with the anchor's label are no negatives.
        negatives: "both": the other images in both views of the pair, N = 2B - 2; "across": in the
            view that the anchor is not of, N = B - 1, for views by encoders of their own.
        normalise: scale the embeddings to length 1, or take them as they are.
        powers: for each a tensor of log-sums of h^power; (1,) gives log S.
        positive_power: β of the weights h^β of the M positives in p̄; 0 weighs them alike.
        whole_batch: give the sum before false negatives are dropped too, where any are.

    Raises:
        ValueError: wrong shapes, an unknown choice, t <= 0, missing labels, or a batch of one label
            whose false negatives are to be dropped.
    """
    check_views(views)
    check_temperature(temperature)
    check_choice("aggregation", aggregation, AGGREGATIONS)
    check_choice("false_negatives", false_negatives, FALSE_NEGATIVES)
    check_choice("negatives", negatives, NEGATIVES)
    across = negatives == "across"
    of_an_image = 1.0 if across else 2.0  # views of each other image that the anchor meets
    whole = of_an_image * (views.shape[1] - 1)
    count: Tensor | float = whole
    left_out, same = (None,) * len(powers), None
    if false_negatives == "drop":
        same = same_label(check_labels(labels, views, 'false_negatives="drop"'))
        count = of_an_image * _remaining(same, torch.promote_types(views.dtype, torch.float32))
        left_out = (same,) * len(powers)
        if whole_batch:
            powers, left_out = (1.0, *powers), (None, *left_out)
    with torch.autocast(views.device.type, enabled=False):
        z = unit_length(views) if normalise else full_precision(views)
        paired = z if aggregation == "loss_combination" else z[:2]
        positive, sums = similarities(
            paired, temperature=temperature, powers=powers, left_out=left_out, bounded=normalise
        )
        if not across:
            # S of the pair (i, j): the images of the anchor's own view, and those of the other.
            sums = tuple(torch.logaddexp(s.diagonal().T.unsqueeze(1), s) for s in sums)
        sums = tuple(_ordered_pairs(s) for s in sums)
        log_whole, *sums = sums if whole_batch and same is not None else (None, *sums)
        return Anchors(
            log_positive=_ordered_pairs(positive),
            log_mean_positive=_log_mean(
                _ordered_pairs(positive), paired, z[len(paired) :], temperature, positive_power
            ),
            log_sums=tuple(sums),
            count=count,
            whole=whole,
            log_whole=log_whole,
            log_own=_log_own(positive, across, 1 / temperature if normalise else None),
        )


def same_label(labels: Tensor) -> Tensor:
    """(B, B) bool: is c the image b, or one with b's label? -1 is no label."""
    same = (labels.unsqueeze(1) == labels) & (labels != -1)
    return same.fill_diagonal_(True)


def _remaining(left_out: Tensor, dtype: torch.dtype) -> Tensor:
    """How many other images each anchor keeps, (B,)."""
    # Sharing a label is an equivalence, so one anchor without a negative means a single class in
    # the batch, and no anchor has one. A GPU is not waited for to find that out: there the loss of
    # such a batch is infinite.
    if not waits(left_out.device) and bool(left_out.all()):
        raise ValueError(
            'false_negatives="drop" leaves no anchor a negative: all images of the batch have the '
            "same label; allowed: at least two labels in a batch; try: a larger batch"
        )
    return (~left_out).sum(1, dtype=dtype)


def _ordered_pairs(x: Tensor) -> Tensor:
    """The entries i ≠ j of (V, V, B) as (V(V - 1), B), a view without an index tensor."""
    v, _, images = x.shape
    # Drop [0, 0]; then every (V+1)-th entry is the next [i, i], the last of a row of V + 1.
    return x.reshape(v * v, images)[1:].view(v - 1, v + 1, images)[:, :-1].flatten(0, 1)


def _log_own(positive: Tensor, across: bool, of_unit_length: float | None) -> Tensor | float | None:
    """log h(anchor, anchor) of each anchor, (P, B), from log h between all pairs of views."""
    if across or of_unit_length is not None:
        return None if across else of_unit_length
    own = positive.diagonal().T.unsqueeze(1)  # (V, 1, B)
    return _ordered_pairs(own.expand_as(positive))


def _log_mean(
    positive: Tensor, paired: Tensor, further: Tensor, temperature: float, power: float
) -> Tensor:
    """log p̄ of each anchor, (P, B): the mean of h over its positives, with weights h^power."""
    if not len(further):
        return positive
    others = (paired.unsqueeze(1) * further).sum(-1) / temperature  # (2, V - 2, B)
    all_of_them = torch.cat([positive.unsqueeze(1), others], dim=1)
    if power == 0:
        return all_of_them.logsumexp(1) - math.log(1 + len(further))
    return ((1 + power) * all_of_them).logsumexp(1) - (power * all_of_them).logsumexp(1)
