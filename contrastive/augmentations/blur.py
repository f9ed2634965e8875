"""Blurring: a 3×3 Gaussian of a width of its own for each image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gaussian_blur(images: Tensor, sigma: Tensor) -> Tensor:
    """3×3 Gaussian blur with reflected borders; torchvision's `gaussian_blur(kernel_size=3)`.

    A 3-tap kernel is symmetric: the sum of the two neighbours and the pixel itself, twice.

    Args:
        images: (B, C, H, W) float, H and W >= 2.
        sigma: (B,) pixels, > 0.

    Returns:
        (B, C, H, W) float.
    """
    side = torch.exp(-0.5 / sigma.square())[:, None, None, None]
    total = 1 + 2 * side
    side, centre = side / total, 1 / total
    padded = F.pad(images, (1, 1, 1, 1), mode="reflect")
    rows = centre * padded[..., 1:-1, :] + side * (padded[..., :-2, :] + padded[..., 2:, :])
    return centre * rows[..., 1:-1] + side * (rows[..., :-2] + rows[..., 2:])
