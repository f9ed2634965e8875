"""The debiased loss in which the negatives most like the anchor count most."""

from __future__ import annotations

from torch import Tensor

from contrastive.losses import debiased_negatives
from contrastive.losses.terms.anchors import anchors
from contrastive.losses.terms.checks import check_floor, check_number


def hard_neg(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None = None,
    tau_plus: float = 0.1,
    beta: float = 1.0,
    aggregation: str = "pos_grouping",
    false_negatives: str = "keep",
    negatives: str = "both",
    normalise: bool = True,
    floor: str = "clamp",
) -> Tensor:
    """Debiased loss with negatives drawn, by importance weights, near the anchor.

    As `debiased_neg`, where S, the sum of the values neg_i = h(anchor, negative i), becomes

        S_β = Σ_i w_i neg_i / mean(w),   w_i = neg_i^β

    which estimates the sum under q_β⁻ ∝ e^{β f(x)ᵀf(x⁻)} p⁻ by importance sampling; and p̄, the
    estimate of what q_β has of the anchor's class, is weighted likewise over the M positives:

        p̄_β = Σ_j v_j pos_j / Σ_j v_j,   v_j = pos_j^β

    Source: Robinson et al. 2021, arXiv:2010.04592, whose code has M = 1, where p̄_β = pos.
    Departures: β multiplies the cosine divided by t, as in that paper's code, not the bare cosine.
        With `floor="biased"` the fallback is `contrastive`, with S and not S_β.

    Args:
        views: (V, B, D) float, V = M + 1 >= 2 views of each of B >= 2 images.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        tau_plus: τ⁺ in [0, 1), probability that a random image has the anchor's class.
        beta: β >= 0, the concentration on hard negatives; 0 gives `debiased_neg`.
        aggregation, false_negatives, negatives, normalise, floor: as in `debiased_neg`.

    Returns:
        () loss in nats.

    Raises:
        ValueError: as `debiased_neg`, or β < 0.

    Example:
        >>> import torch
        >>> z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> views = torch.stack([z, z])
        >>> round(hard_neg(views, temperature=1.0, tau_plus=0.1, beta=1.0).item(), 4)
        1.2506
        >>> round(hard_neg(views, temperature=1.0, tau_plus=0.1, beta=0.0).item(), 4)
        1.1881
    """
    debiased_negatives.check_tau_plus(tau_plus)
    check_number("beta", beta, "a finite number >= 0", beta >= 0)
    check_floor(floor, normalise)
    # The plain sum comes first, where the fallback looks for it; β = 1 has it as its weights.
    plain = (1.0,) if floor == "biased" or beta in (0, 1) else ()
    weighted = () if beta == 0 else (1.0 + beta,) if beta == 1 else (float(beta), 1.0 + beta)
    a = anchors(
        views,
        temperature=temperature,
        labels=labels,
        aggregation=aggregation,
        false_negatives=false_negatives,
        negatives=negatives,
        normalise=normalise,
        powers=plain + weighted,
        positive_power=beta,
    )
    # S_β / N = Σ neg^{1+β} / Σ neg^β: the mean's 1/N and the N of S_β / N cancel.
    log_mean_negative = None if beta == 0 else a.log_sums[-1] - a.log_sums[-2]
    return debiased_negatives.per_anchor(a, temperature, tau_plus, floor, log_mean_negative).mean()
