"""The true errors of finite batches, and their Monte-Carlo estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.bounds.mixture import Mixture, Sample


class Estimate(NamedTuple):
    """Monte-Carlo estimates in nats, with standard errors."""

    absolute: float  # E|Δ|, what the proofs bound
    absolute_error: float
    bias: float  # E Δ, whose absolute value the theorems speak of
    bias_error: float


def pos_errors(s: Sample, n: int, tau_plus: float, *, as_printed: bool) -> Tensor:
    """Δ of `debiased_pos` per anchor: finite N (12) less its limit (11), (T,) nats.

    Args:
        as_printed: P from the same N true negatives, the positive and the anchor (13); otherwise
            from N independent draws of p, which is what the proof of Theorem 2.1 supposes.
    """
    tau_minus = 1 - tau_plus
    p = (n * s.of_p_minus + s.pos + math.e) / (n + 2) if as_printed else s.of_p
    numerator = (p - tau_minus * s.of_p_minus).clamp_min(tau_plus / math.e)
    finite = torch.log1p(n * tau_plus * s.of_p_minus / numerator)
    return finite - torch.log1p(n * s.expected_minus / s.expected_plus)


def dropped_errors(s: Sample, n: int, tau_plus: float) -> Tensor:
    """Δ of `debiased_pos` per anchor when false negatives are dropped, (T',) nats.

    P is the mean over the whole batch, N draws of p, the positive and the anchor; P⁻ over those
    of the N that are of another class, and the limit (11) has as many. Anchors left without any
    have no loss.
    """
    numerator = (n * s.of_p + s.pos + math.e) / (n + 2) - (1 - tau_plus) * s.of_kept
    finite = torch.log1p(s.kept * tau_plus * s.of_kept / numerator.clamp_min(tau_plus / math.e))
    limit = torch.log1p(s.kept * s.expected_minus / s.expected_plus)
    return (finite - limit)[s.kept > 0]


def lemma_4_slack(mixture: Mixture, s: Sample, n: int) -> Tensor:
    """By how much L̃ᴺ lies above the mean classifier's loss, per anchor, (T,) nats.

    Lemma 4 of Chuang et al. 2020 says that the mean is >= 0 when N >= K - 1: L̃ᴺ is the limit of
    `debiased_neg`, the classifier has softmax weights E f(x) of each class, the task all K classes.
    """
    limit = torch.log1p(n * s.expected_minus / s.pos)
    logits = s.anchor @ mixture.means.T
    return limit - (logits.logsumexp(1) - logits.gather(1, s.label[:, None])[:, 0])


def eq_9_gap(mixture: Mixture, s: Sample) -> Tensor:
    """log E⁺h - E⁺ log h per anchor, (T,) nats, exactly.

    Lemma 1 of Troeshestova & Isachenko (Eq. 9) moves E⁺ inside the logarithm. For N → ∞ its left
    side exceeds its right side by the mean of this, which is not 0 unless h(x, x⁺) is constant.
    """
    return s.expected_plus.log() - (s.anchor * mixture.means[s.label]).sum(1)


def neg_errors(s: Sample, n: int, tau_plus: float) -> Tensor:
    """Δ of `debiased_neg` per anchor: finite N and M (8) less its limit (6), (T,) nats."""
    g = ((s.of_p - tau_plus * s.positives) / (1 - tau_plus)).clamp_min(1 / math.e)
    return torch.log1p(n * g / s.pos) - torch.log1p(n * s.expected_minus / s.pos)


def lemma_1_slack(s: Sample, n: int) -> Tensor:
    """L_biased - L_unbiased - min(0, log(E⁺h/E⁻h)) per anchor, (T,); Lemma 1 bounds its mean."""
    biased, unbiased = torch.log1p(n * s.of_p / s.pos), torch.log1p(n * s.of_p_minus / s.pos)
    return biased - unbiased - (s.expected_plus / s.expected_minus).log().clamp_max(0)


def estimate(errors: Tensor) -> Estimate:
    """Mean of |Δ| and of Δ over anchors (T,)."""
    size, root = errors.abs(), math.sqrt(len(errors))
    return Estimate(*(float(v) for v in (size.mean(), size.std() / root, errors.mean(),
                                         errors.std() / root)))  # fmt: skip


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y in log x."""
    a = torch.tensor([x, y], dtype=torch.float64).log()
    dx, dy = (a - a.mean(1, keepdim=True)).unbind()
    return float((dx * dy).sum() / dx.square().sum())
