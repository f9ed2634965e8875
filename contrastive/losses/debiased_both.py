"""The weighted mean of the two debiased losses."""

from __future__ import annotations

from torch import Tensor

from contrastive.losses import debiased_negatives, debiased_positives
from contrastive.losses.terms.anchors import anchors
from contrastive.losses.terms.checks import FORMULAS, check_choice, check_floor, check_number


def debiased_both(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None = None,
    tau_plus: float = 0.1,
    alpha: float = 0.5,
    aggregation: str = "pos_grouping",
    false_negatives: str = "keep",
    negatives: str = "both",
    normalise: bool = True,
    floor: str = "clamp",
    formula: str = "published",
) -> Tensor:
    """Weighted mean of the two debiased losses, from the same similarities.

        L = α · debiased_neg + (1 - α) · debiased_pos

    Source: the code published by the authors of the positive-debiased loss; no paper.
    Departures: none.

    Args:
        views: (V, B, D) float, V = M + 1 >= 2 views of each of B >= 2 images.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        tau_plus: τ⁺ in (0, 1), as in `debiased_pos`, used by both.
        alpha: α in [0, 1], the weight of `debiased_neg`.
        aggregation, false_negatives, negatives, normalise, floor: as in `debiased_neg` and
            `debiased_pos`.
        formula: of `debiased_pos`; the authors' own combination has "notebook".

    Returns:
        () loss in nats.

    Raises:
        ValueError: as `debiased_pos`, or α outside [0, 1].

    Example:
        >>> import torch
        >>> z = torch.eye(2)
        >>> views = torch.stack([z, z])
        >>> round(debiased_both(views, temperature=1.0, tau_plus=0.1, alpha=0.5).item(), 4)
        0.3282
    """
    debiased_positives.check_tau_plus(tau_plus)
    check_number("alpha", alpha, "a number in [0, 1]", 0 <= alpha <= 1)
    check_floor(floor, normalise)
    check_choice("formula", formula, FORMULAS)
    a = anchors(
        views,
        temperature=temperature,
        labels=labels,
        aggregation=aggregation,
        false_negatives=false_negatives,
        negatives=negatives,
        normalise=normalise,
        whole_batch=True,
    )
    negative = debiased_negatives.per_anchor(a, temperature, tau_plus, floor)
    positive = debiased_positives.per_anchor(a, temperature, tau_plus, floor, formula)
    return (alpha * negative + (1 - alpha) * positive).mean()
