"""Data whose expectations are known: von Mises-Fisher classes on the sphere S²."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

NUMBERS_AT_ONCE = 2**21


@dataclass(frozen=True)
class Mixture:
    """Equally likely classes on S², each von Mises-Fisher: density ∝ exp(κ μᵀz).

    Args:
        classes: 1/τ⁺, at least 2; their directions μ form a Fibonacci lattice.
        concentration: κ > 0.
    """

    classes: int = 10
    concentration: float = 10.0

    @property
    def tau_plus(self) -> float:
        """τ⁺, the probability that two draws share their class."""
        return 1 / self.classes

    @property
    def directions(self) -> Tensor:
        """(classes, 3) unit vectors μ."""
        k = torch.arange(self.classes, dtype=torch.float64)
        height = 1 - (2 * k + 1) / self.classes
        angle = k * math.pi * (3 - math.sqrt(5))  # the golden angle
        radius = (1 - height**2).sqrt()
        return torch.stack([radius * angle.cos(), radius * angle.sin(), height], dim=-1)

    @property
    def means(self) -> Tensor:
        """(classes, 3) E z of each class: (coth κ - 1/κ) μ."""
        length = 1 / math.tanh(self.concentration) - 1 / self.concentration
        return length * self.directions

    def draw(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """One point of the class of each entry of `labels`: (…,) -> (…, 3) float64."""
        u = torch.rand(labels.shape, generator=generator, dtype=torch.float64)
        kappa = self.concentration
        # On S² the cosine with μ has an invertible distribution function.
        cosine = 1 + torch.log(u + (1 - u) * math.exp(-2 * kappa)) / kappa
        mu = self.directions[labels]
        noise = torch.randn(mu.shape, generator=generator, dtype=torch.float64)
        noise -= (noise * mu).sum(-1, keepdim=True) * mu
        noise /= noise.norm(dim=-1, keepdim=True)
        return cosine.unsqueeze(-1) * mu + (1 - cosine**2).clamp_min(0).sqrt().unsqueeze(-1) * noise

    def expected_h(self, x: Tensor) -> Tensor:
        """E exp(xᵀz) over z of each class, exactly: (T, 3) -> (T, classes)."""
        kappa = self.concentration
        r = (kappa * self.directions + x.unsqueeze(1)).norm(dim=-1)
        # The normaliser of the density is κ / (4π sinh κ), and tilting by x gives κμ + x.
        return (r - kappa).exp() * (1 - (-2 * r).exp()) / r * kappa / (1 - math.exp(-2 * kappa))


class Sample(NamedTuple):
    """h = exp(xᵀz) between T anchors x and what was drawn for each, and its expectations."""

    anchor: Tensor  # (T, 3) x
    label: Tensor  # (T,) class of x
    pos: Tensor  # (T,) one positive
    positives: Tensor  # (T,) mean over M further positives
    of_p: Tensor  # (T,) mean over N draws of p
    kept: Tensor  # (T,) how many of those draws are of another class than x
    of_kept: Tensor  # (T,) mean over them; 0 where there is none
    of_p_minus: Tensor  # (T,) mean over N draws of p⁻, independent of those
    expected_plus: Tensor  # (T,) E⁺h
    expected_minus: Tensor  # (T,) E⁻h


def sample(mixture: Mixture, n: int, m: int, trials: int, generator: torch.Generator) -> Sample:
    """Draw `trials` anchors, and for each of them N + N negatives and 1 + M positives."""
    at_once = max(NUMBERS_AT_ONCE // (6 * n + 3 * m), 1)
    parts = [
        _sample(mixture, n, m, min(at_once, trials - start), generator)
        for start in range(0, trials, at_once)
    ]
    return Sample(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _sample(mixture: Mixture, n: int, m: int, trials: int, generator: torch.Generator) -> Sample:
    label = torch.randint(mixture.classes, (trials, 1), generator=generator)
    x = mixture.draw(label[:, 0], generator)

    def h(labels: Tensor) -> Tensor:
        return (mixture.draw(labels, generator) @ x.unsqueeze(-1)).squeeze(-1).exp()

    labels = torch.randint(mixture.classes, (trials, n), generator=generator)
    drawn, other_class = h(labels), labels != label
    kept = other_class.sum(1)
    of_kept = (drawn * other_class).sum(1) / kept.clamp_min(1)
    other = torch.randint(1, mixture.classes, (trials, n), generator=generator)
    of_p_minus = h((label + other) % mixture.classes).mean(1)
    positives = h(label.expand(trials, m)).mean(1)
    expected = mixture.expected_h(x)
    plus = expected.gather(1, label)[:, 0]
    minus = (expected.sum(1) - plus) / (mixture.classes - 1)
    pos = h(label)[:, 0]
    return Sample(
        x, label[:, 0], pos, positives, drawn.mean(1), kept, of_kept, of_p_minus, plus, minus
    )
