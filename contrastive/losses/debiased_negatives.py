"""The negative-debiased loss, corrected for negatives of the anchor's class."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contrastive.losses import nt_xent
from contrastive.losses.terms.anchors import Anchors, anchors
from contrastive.losses.terms.checks import check_floor, check_number
from contrastive.losses.terms.logspace import barely_positive, log1pexp, log_difference


def debiased_neg(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None = None,
    tau_plus: float = 0.1,
    aggregation: str = "pos_grouping",
    false_negatives: str = "keep",
    negatives: str = "both",
    normalise: bool = True,
    floor: str = "clamp",
) -> Tensor:
    """Debiased contrastive loss: false negatives are subtracted from the sum over negatives.

    With pos, S and N as in `contrastive`, p̄ the mean of h over the anchor's M positives,
    τ⁻ = 1 - τ⁺:

        g = max{ (S/N - τ⁺ p̄) / τ⁻, e^{-1/t} }
        L = mean over anchors of -log( pos / (pos + N g) )

    e^{-1/t} is the least that the expectation estimated by g can be.

    Source: Chuang et al. 2020, arXiv:2007.00224, Eqs. 7 and 8 with Q = N.
    Departures: `loss_combination` is not in that paper; it is the aggregation (16) of
        Troeshestova & Isachenko, "Mitigating distributional biases in contrastive learning".

    Args:
        views: (V, B, D) float, V = M + 1 >= 2 views of each of B >= 2 images.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        tau_plus: τ⁺ in [0, 1), probability that a random image has the anchor's class.
        aggregation: "pos_grouping": the pair of views (0, 1), where views 2…M are further
            positives of both anchors in p̄; "loss_combination": all pairs of views, p̄ = pos.
        false_negatives: "keep", or "drop" the images with the anchor's label, as in `contrastive`.
        negatives, normalise: as in `contrastive`.
        floor: "clamp" g as above; "biased": an anchor whose g is at its floor uses the
            contrastive loss instead (Chuang et al., appendix B, at t = 0.07); "positive": g is
            only kept above 0, at 1e-6 of S/(N τ⁻), as there for embeddings that are not scaled.

    Returns:
        () loss in nats.

    Raises:
        ValueError: as `contrastive`, τ⁺ outside [0, 1), or another floor than "positive" for
            embeddings that are not scaled.

    Example:
        >>> z = torch.eye(2)
        >>> views = torch.stack([z, z])
        >>> round(debiased_neg(views, temperature=1.0, tau_plus=0.1).item(), 4)
        0.4671
        >>> round(debiased_neg(views, temperature=1.0, tau_plus=0.0).item(), 4)
        0.5514
    """
    check_tau_plus(tau_plus)
    check_floor(floor, normalise)
    a = anchors(
        views,
        temperature=temperature,
        labels=labels,
        aggregation=aggregation,
        false_negatives=false_negatives,
        negatives=negatives,
        normalise=normalise,
    )
    return per_anchor(a, temperature, tau_plus, floor).mean()


def check_tau_plus(tau_plus: float) -> None:
    """Refuse τ⁺ outside [0, 1)."""
    check_number("tau_plus", tau_plus, "a number in [0, 1)", 0 <= tau_plus < 1)


def per_anchor(
    a: Anchors,
    temperature: float,
    tau_plus: float,
    floor: str,
    log_mean_negative: Tensor | None = None,
) -> Tensor:
    """The debiased loss of each anchor, (P, B).

    Args:
        a: with log S as its first log-sum.
        temperature, tau_plus, floor: as in `debiased_neg`.
        log_mean_negative: (P, B), in place of log(S/N).
    """
    log_n = a.log_count()
    if log_mean_negative is None:
        log_mean_negative = a.log_sums[0] - log_n
    minuend = log_mean_negative - math.log1p(-tau_plus)
    least = barely_positive(minuend) if floor == "positive" else -1 / temperature
    if tau_plus == 0:
        above = minuend > least
        log_g = torch.where(above, minuend, least)
    else:
        subtrahend = a.log_mean_positive + math.log(tau_plus / (1 - tau_plus))
        log_g, above = log_difference(minuend, subtrahend, floor=least)
    loss = log1pexp(log_g + log_n - a.log_positive)
    return torch.where(above, loss, nt_xent.per_anchor(a)) if floor == "biased" else loss
