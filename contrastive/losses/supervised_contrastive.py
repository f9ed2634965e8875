"""The supervised contrastive loss: all images of the anchor's class are positives."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contrastive.losses.terms.anchors import same_label, unit_length
from contrastive.losses.terms.checks import check_labels, check_temperature, check_views
from contrastive.losses.terms.similarities import similarities


def supcon(views: Tensor, *, temperature: float, labels: Tensor | None = None) -> Tensor:
    """Supervised contrastive loss: every view of every image of the anchor's class is a positive.

    Over all V·B embeddings z, A(i) all of them but i, P(i) those of A(i) with i's label:

        L = mean_i  -1/|P(i)| Σ_{p∈P(i)} log( exp(z_iᵀz_p / t) / Σ_{a∈A(i)} exp(z_iᵀz_a / t) )

    Source: Khosla et al. 2020, arXiv:2004.11362, Eq. 2 (L_out).
    Departures: the mean over anchors, where Eq. 2 has their sum and the published code multiplies
        by t / 0.07 as well. An unlabelled image has its own other views as positives.

    Written here and not taken from a library: that of pytorch-metric-learning takes -1 for a class
    like any other and averages over the anchors with a loss above 0 only.

    Args:
        views: (V, B, D) float, V >= 2 views of each of B >= 2 images; computed in float32 at least.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, needed; -1 for unlabelled.

    Returns:
        () loss in nats; log(V·B - 1) when all embeddings coincide. With V = 2 and no two images of
        one class it is `contrastive`.

    Raises:
        ValueError: wrong shapes, fewer than 2 views or images, t <= 0, or no labels.

    Example:
        >>> z = torch.eye(2)
        >>> labels = torch.tensor([0, 1])
        >>> round(supcon(torch.stack([z, z]), temperature=1.0, labels=labels).item(), 4)
        0.5514
    """
    check_views(views)
    check_temperature(temperature)
    same = same_label(check_labels(labels, views, "supcon"))  # (B, B), True for b itself
    v = views.shape[0]
    with torch.autocast(views.device.type, enabled=False):
        z = unit_length(views)
        positive, (log_sums,) = similarities(z, temperature=temperature)
        # Of an image's own views, the anchor itself is in neither sum.
        own = positive.masked_fill(
            torch.eye(v, dtype=torch.bool, device=z.device)[..., None], -math.inf
        )
        log_all = torch.cat([log_sums, own], dim=1).logsumexp(1)  # (V, B)
        # Σ_p z_iᵀz_p = z_iᵀ(sum over the class - z_i): B² numbers, where the pairs are (V·B)².
        of_class = same.to(z.dtype) @ z.sum(0)  # (B, D)
        total = (z * (of_class - z)).sum(-1) / temperature  # (V, B)
        return (log_all - total / (v * same.sum(1) - 1)).mean()
