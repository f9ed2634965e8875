"""NT-Xent, the contrastive loss without correction."""

from __future__ import annotations

from torch import Tensor

from contrastive.losses.terms.anchors import Anchors, anchors
from contrastive.losses.terms.logspace import log1pexp


def contrastive(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None = None,
    aggregation: str = "pos_grouping",
    false_negatives: str = "keep",
    negatives: str = "both",
    normalise: bool = True,
) -> Tensor:
    """NT-Xent: each anchor's positive against the N = 2B - 2 other images of a pair of views.

    With embeddings z scaled to unit length, h(x, y) = exp(xᵀy / t), and for the anchor z_i[b] of
    the pair of views (i, j)

        pos = h(z_i[b], z_j[b])
        S   = Σ_{c≠b} h(z_i[b], z_i[c]) + h(z_i[b], z_j[c])

        L = mean over anchors of -log( pos / (pos + S) )

    Both views of a pair serve as anchors.

    Source: Chen et al. 2020, arXiv:2002.05709, Eq. 1; Chuang et al. 2020, arXiv:2007.00224, Eq. 1.
        With `false_negatives="drop"`, the latter's "unbiased" reference, Eq. 2.
    Departures: more than two views are used as `aggregation` says.

    Args:
        views: (V, B, D) float, V >= 2 views of each of B >= 2 images; computed in float32 at least.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        aggregation: "pos_grouping" uses the pair of views (0, 1) alone, since this loss has no
            mean over positives; "loss_combination" averages over all V(V - 1)/2 pairs of views.
        false_negatives: "keep" all other images, or "drop" those with the anchor's label: N and S
            then count what is left.
        negatives: "both" views of the other images, N = 2B - 2; "across": the view that the anchor
            is not of alone, N = B - 1, for two views by two encoders (Tian et al. 2019,
            arXiv:1906.05849).
        normalise: scale embeddings to length 1; False takes them as they are.

    Returns:
        () loss in nats; log(N + 1) when all embeddings coincide.

    Raises:
        ValueError: wrong shapes, fewer than 2 views or images, t <= 0, an unknown option, missing
            labels, or `false_negatives="drop"` in a batch of a single label.

    Example:
        >>> import torch
        >>> z = torch.eye(2)
        >>> round(contrastive(torch.stack([z, z]), temperature=1.0).item(), 4)
        0.5514
    """
    a = anchors(
        views,
        temperature=temperature,
        labels=labels,
        aggregation=aggregation,
        false_negatives=false_negatives,
        negatives=negatives,
        normalise=normalise,
    )
    return per_anchor(a).mean()


def per_anchor(a: Anchors, log_sum: Tensor | None = None) -> Tensor:
    """-log pos/(pos + S) of each anchor, (P, B); S is the first of `a.log_sums` if not given."""
    return log1pexp((a.log_sums[0] if log_sum is None else log_sum) - a.log_positive)
