"""Sums and differences of exponentials that stay finite, in value and in gradient."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

# Of the larger term: what is left of a difference that is not positive. Float32 resolves 1e-7.
LEAST_SHARE = 1e-6


def log1pexp(x: Tensor) -> Tensor:
    """log(1 + eˣ), so that -log(a / (a + b)) is log1pexp(log b - log a); exact in float64.

    `softplus` switches to x itself above a threshold; its default of 20 is off by 2e-9.
    """
    return F.softplus(x, threshold=40.0)


def barely_positive(log_term: Tensor) -> Tensor:
    """The logarithm of a millionth of a term: a floor for its difference to another."""
    return log_term + math.log(LEAST_SHARE)


def log_difference(larger: Tensor, smaller: Tensor, floor: Tensor | float) -> tuple[Tensor, Tensor]:
    """log max(e^larger - e^smaller, e^floor), and where the difference is above the floor.

    Args:
        larger, smaller: logarithms, of the same shape; `larger` is finite.
        floor: logarithm of the least value that the difference may take.

    Returns:
        the logarithm, with the floor's gradient where that acts; and a bool tensor, False there.
    """
    gap = smaller - larger
    positive = gap < 0
    # Where the difference is not positive its logarithm is NaN, and NaN times the zero that
    # torch.where sends back is still NaN: so the gap is replaced before the logarithm is taken.
    gap = torch.where(positive, gap, -1.0)
    difference = larger + torch.log(-torch.expm1(gap))
    above = positive & (difference > floor)
    return torch.where(above, difference, floor), above
