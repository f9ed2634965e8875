"""Sums and differences of exponentials that stay finite, in value and in gradient."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def log1pexp(x: Tensor) -> Tensor:
    """log(1 + eˣ), so that -log(a / (a + b)) is log1pexp(log b - log a); exact in float64.

    `softplus` switches to x itself above a threshold; its default of 20 is off by 2e-9.
    """
    return F.softplus(x, threshold=40.0)


def log_difference(larger: Tensor, smaller: Tensor, floor: float) -> tuple[Tensor, Tensor]:
    """log max(e^larger - e^smaller, e^floor), and where the difference is above the floor.

    Args:
        larger, smaller: logarithms, of the same shape; `larger` is finite.
        floor: logarithm of the least value that the difference may take.

    Returns:
        the logarithm, with gradient 0 where the floor acts; and a bool tensor, False there.
    """
    gap = smaller - larger
    positive = gap < 0
    # Where the difference is not positive its logarithm is NaN, and NaN times the zero that
    # torch.where sends back is still NaN: so the gap is replaced before the logarithm is taken.
    gap = torch.where(positive, gap, -1.0)
    difference = larger + torch.log(-torch.expm1(gap))
    above = positive & (difference > floor)
    return torch.where(above, difference, floor), above
