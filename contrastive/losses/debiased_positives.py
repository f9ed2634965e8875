"""The positive-debiased loss, corrected for positives of another class than their anchor's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from contrastive.losses import nt_xent
from contrastive.losses.terms.anchors import Anchors, anchors
from contrastive.losses.terms.checks import FORMULAS, check_choice, check_floor, check_number
from contrastive.losses.terms.logspace import barely_positive, log1pexp, log_difference


def debiased_pos(
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
    formula: str = "published",
) -> Tensor:
    """Positive-debiased loss: the positive is estimated from the whole batch, not from one view.

    With S and N as in `contrastive`, p̄ the mean of h over the anchor's M positives, τ⁻ = 1 - τ⁺,
    and S_all the sum over all W = 2B - 2 other images of the batch, false negatives included:

        P = (S_all + p̄ + h(anchor, anchor)) / (W + 2)         estimates E_p h
        n = max{ P - τ⁻ S/N, τ⁺ e^{-1/t} }                    estimates τ⁺ E⁺ h
        L = mean over anchors of -log( n / (n + N τ⁺ S/N) )

    where h(anchor, anchor) = e^{1/t} for embeddings of unit length. P needs no labels and keeps
    every image also under `false_negatives="drop"`: from the kept ones alone P and S/N would be one
    average, and the loss without a signal.

    `formula="notebook"` is the version that the authors' notebook trains in their Figures 1 to 4,
    with sums in place of means; S_all as above, pos the pair's own positive:

        L = mean over anchors of -log( n' / (n' + W τ⁺ S) ),   n' = S_all + pos + e^{1/t} - τ⁻ S

    Source: Troeshestova & Isachenko, "Mitigating distributional biases in contrastive learning",
        Eqs. 12-14; its denominator P + (Nτ⁺ - τ⁻) P⁻ is n + N τ⁺ P⁻. The notebook: their published
        code, class `DebiasedPosLossV2`.
    Departures: n has a floor, the least that τ⁺E⁺h can be; the paper has none and takes the
        logarithm of a negative number when N τ⁺ < 2 τ⁻ and the positive is unlike its anchor; n'
        is positive as it stands. The authors' code of Eqs. 12-14, when it drops false negatives,
        zeroes their similarities in P too, continues to divide by 2B - 2 and loses the term
        e^{1/t}. With `negatives="across"` the anchor is no draw of the other view: its own term is
        left out, and P = (S_all + p̄)/(W + 1) with W = B - 1.

    Args:
        views: (V, B, D) float, V = M + 1 >= 2 views of each of B >= 2 images.
        temperature: t > 0, dimensionless.
        labels: (B,) integers, -1 for unlabelled; needed for `false_negatives="drop"`.
        tau_plus: τ⁺ in (0, 1). At 0 the loss is identically 0 and teaches nothing.
        aggregation: "pos_grouping": the pair of views (0, 1), where views 2…M are further
            positives of both anchors in p̄; "loss_combination": all pairs of views, p̄ = pos.
        false_negatives: "keep", or "drop" the images with the anchor's label, as in `contrastive`.
        negatives, normalise: as in `contrastive`.
        floor: "clamp" n as above; "biased": an anchor whose n is at its floor uses the
            contrastive loss instead; "positive": n is only kept above 0, at 1e-6 of P.
        formula: "published" or "notebook", as above; the latter has no floor.

    Returns:
        () loss in nats.

    Raises:
        ValueError: as `contrastive`, τ⁺ outside (0, 1), or another floor than "positive" for
            embeddings that are not scaled.

    Example:
        >>> z = torch.eye(2)
        >>> views = torch.stack([z, z])
        >>> round(debiased_pos(views, temperature=1.0, tau_plus=0.1).item(), 4)
        0.1894
        >>> round(debiased_pos(views, temperature=1.0, tau_plus=0.1, formula="notebook").item(), 4)
        0.0686
    """
    check_tau_plus(tau_plus)
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
    return per_anchor(a, temperature, tau_plus, floor, formula).mean()


def check_tau_plus(tau_plus: float) -> None:
    """Refuse τ⁺ outside (0, 1)."""
    allowed = "a number in (0, 1), since at 0 the loss is identically 0 and teaches nothing"
    check_number("tau_plus", tau_plus, allowed, 0 < tau_plus < 1)


def per_anchor(
    a: Anchors, temperature: float, tau_plus: float, floor: str, formula: str = "published"
) -> Tensor:
    """The positive-debiased loss of each anchor, (P, B).

    Args:
        a: with log S as its last log-sum, and `log_whole` where false negatives were dropped.
        temperature, tau_plus, floor, formula: as in `debiased_pos`.
    """
    log_sum = a.log_sums[-1]
    if formula == "notebook":
        log_n = _log_of_the_notebook(a, tau_plus)
        return log1pexp(math.log(a.whole * tau_plus) + log_sum - log_n)
    least = None if floor == "positive" else math.log(tau_plus) - 1 / temperature
    log_n, above = _log_numerator(a, tau_plus, least)
    loss = log1pexp(math.log(tau_plus) + log_sum - log_n)
    if floor != "biased" or above is None:
        return loss
    return torch.where(above, loss, nt_xent.per_anchor(a, log_sum))


def _log_numerator(
    a: Anchors, tau_plus: float, least: float | None
) -> tuple[Tensor, Tensor | None]:
    """log n, (P, B), and where it is above its floor; None: everywhere.

    The floor is `least`, or where that is None a millionth of P.

    Where nothing was dropped S_all is S, which enters P - τ⁻ S/N with the one factor
    (N τ⁺ - q τ⁻) / (N (N + q)), q the terms of P beside S. When it is not negative, n is a sum of
    positive terms, never below its floor, so no terms cancel.
    """
    certain, beside = _certain(a, a.log_mean_positive)
    if a.log_whole is not None:
        log_p = torch.logaddexp(certain, a.log_whole) - math.log(a.whole + beside)
        others = a.log_sums[-1] - a.log_count() + math.log1p(-tau_plus)
        floor = barely_positive(log_p) if least is None else least
        return log_difference(log_p, others, floor=floor)
    log_size = math.log(a.count + beside)
    surplus = a.count * tau_plus - beside * (1 - tau_plus)
    if surplus == 0:
        return certain - log_size, None
    other = a.log_sums[-1] - a.log_count() + math.log(abs(surplus))
    if surplus > 0:
        return torch.logaddexp(certain, other) - log_size, None
    if least is None:
        floor = barely_positive(torch.logaddexp(certain, a.log_sums[-1]))
    else:
        floor = least + log_size
    log_n, above = log_difference(certain, other, floor=floor)
    return log_n - log_size, above


def _log_of_the_notebook(a: Anchors, tau_plus: float) -> Tensor:
    """log n', (P, B): S_all - τ⁻ S is τ⁺ S and what was dropped, so that no terms cancel."""
    certain, _ = _certain(a, a.log_positive)
    if a.log_whole is None:
        return torch.logaddexp(certain, a.log_sums[-1] + math.log(tau_plus))
    kept = a.log_sums[-1] + math.log1p(-tau_plus)
    rest, _ = log_difference(a.log_whole, kept, floor=barely_positive(a.log_whole))
    return torch.logaddexp(certain, rest)


def _certain(a: Anchors, log_positive: Tensor) -> tuple[Tensor, int]:
    """log of what P sums beside S_all, (P, B), and of how many terms: the positive, the anchor."""
    if a.log_own is None:
        return log_positive, 1
    own = a.log_own
    if not isinstance(own, Tensor):
        own = torch.full_like(log_positive, own)
    return torch.logaddexp(log_positive, own), 2
