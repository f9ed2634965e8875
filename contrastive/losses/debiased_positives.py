"""The positive-debiased loss, corrected for positives of another class than their anchor's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contrastive.losses import nt_xent
from contrastive.losses.terms.anchors import Anchors, anchors
from contrastive.losses.terms.checks import FLOORS, check_choice, check_number
from contrastive.losses.terms.logspace import log1pexp, log_difference


def debiased_pos(
    views: Tensor,
    *,
    temperature: float,
    labels: Tensor | None = None,
    tau_plus: float = 0.1,
    aggregation: str = "pos_grouping",
    false_negatives: str = "keep",
    floor: str = "clamp",
) -> Tensor:
    """Positive-debiased loss: the positive is estimated from the whole batch, not from one view.

    With S and N as in `contrastive`, p̄ the mean of h over the anchor's M positives, τ⁻ = 1 - τ⁺:

        P = (S + p̄ + e^{1/t}) / (N + 2)               estimates E_p h, the anchor included
        n = max{ P - τ⁻ S/N, τ⁺ e^{-1/t} }            estimates τ⁺ E⁺ h
        L = mean over anchors of -log( n / (n + N τ⁺ S/N) )

    Source: Troeshestova & Isachenko, "Mitigating distributional biases in contrastive learning",
        Eqs. 12-14; its denominator P + (Nτ⁺ - τ⁻) P⁻ is n + N τ⁺ P⁻.
    Departures: n has a floor, the least that τ⁺E⁺h can be; the paper has none and takes the
        logarithm of a negative number when N τ⁺ < 2 τ⁻ and the positive is unlike its anchor. The
        authors' code, when it drops false negatives, continues to divide by 2B - 2 and loses the
        term e^{1/t}; here N counts what is left and the term stays.

    Args:
        views: (V, B, D) float, V = M + 1 >= 2 views of each of B >= 2 images.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        tau_plus: τ⁺ in (0, 1). At 0 the loss is identically 0 and teaches nothing.
        aggregation: "pos_grouping": the pair of views (0, 1), where views 2…M are further
            positives of both anchors in p̄; "loss_combination": all pairs of views, p̄ = pos.
        false_negatives: "keep", or "drop" the images with the anchor's label, as in `contrastive`.
        floor: "clamp" n as above; "biased": an anchor whose n is at its floor uses the
            contrastive loss instead.

    Returns:
        () loss in nats.

    Raises:
        ValueError: as `contrastive`, or τ⁺ outside (0, 1).

    Example:
        >>> z = torch.eye(2)
        >>> views = torch.stack([z, z])
        >>> round(debiased_pos(views, temperature=1.0, tau_plus=0.1).item(), 4)
        0.1894
    """
    check_tau_plus(tau_plus)
    check_choice("floor", floor, FLOORS)
    a = anchors(
        views,
        temperature=temperature,
        labels=labels,
        aggregation=aggregation,
        false_negatives=false_negatives,
    )
    return per_anchor(a, temperature, tau_plus, floor).mean()


def check_tau_plus(tau_plus: float) -> None:
    """Refuse τ⁺ outside (0, 1)."""
    allowed = "a number in (0, 1), since at 0 the loss is identically 0 and teaches nothing"
    check_number("tau_plus", tau_plus, allowed, 0 < tau_plus < 1)


def per_anchor(a: Anchors, temperature: float, tau_plus: float, floor: str) -> Tensor:
    """The positive-debiased loss of each anchor, (P, B)."""
    log_n, above = _log_numerator(a, temperature, tau_plus)
    loss = log1pexp(math.log(tau_plus) + a.log_sums[0] - log_n)
    if floor == "clamp" or above is None:
        return loss
    return torch.where(above, loss, nt_xent.per_anchor(a))


def _log_numerator(a: Anchors, temperature: float, tau_plus: float) -> tuple[Tensor, Tensor | None]:
    """log n, (P, B), and where it is above its floor; None: everywhere.

    S enters P - τ⁻ S/N with the one factor (N τ⁺ - 2 τ⁻) / (N (N + 2)). When it is not negative,
    n is a sum of positive terms, never below its floor, so no terms cancel.
    """
    surplus = a.count * tau_plus - 2 * (1 - tau_plus)
    certain = torch.logaddexp(a.log_mean_positive, torch.full_like(a.log_positive, 1 / temperature))
    log_sum = a.log_sums[0] - a.log_count()
    log_floor = math.log(tau_plus) - 1 / temperature
    if isinstance(surplus, float):
        log_size = math.log(a.count + 2)
        if surplus == 0:
            return certain - log_size, None
        other = log_sum + math.log(abs(surplus))
        if surplus > 0:
            return torch.logaddexp(certain, other) - log_size, None
        log_n, above = log_difference(certain, other, floor=log_floor + log_size)
        return log_n - log_size, above
    # With false negatives dropped, N and with it the sign differ from anchor to anchor.
    log_size = (a.count + 2).log()
    other = log_sum + surplus.abs().clamp_min(torch.finfo(log_sum.dtype).tiny).log()
    added = torch.logaddexp(certain, other) - log_size
    reduced, above = log_difference(certain - log_size, other - log_size, floor=log_floor)
    return torch.where(surplus >= 0, added, reduced), above | (surplus >= 0)
