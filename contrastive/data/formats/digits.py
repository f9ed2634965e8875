"""scikit-learn's digits, plain and scattered: real images that need no download.

`scattered_digits` shows every digit under its own rotation, scale and shift on a larger canvas,
drawn once and kept: nearest neighbours on raw pixels no longer solve the task, a
representation that ignores pose does, and an epoch still takes a second on one core.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from contrastive.data.formats.base import Decoded, whole

# These constants define the dataset: a change calls for a new cache.FORMAT_VERSION.
CANVAS = 16  # pixels
MAX_ROTATION = 60.0  # degrees, either way
MAX_SHRINK = 1.5
MAX_SHIFT = 1 / 6  # of the canvas, either way
SCATTER_SEED = 20240


def _digits() -> tuple[Tensor, np.ndarray]:
    """(1797, 1, 8, 8) float64 in [0, 1] and (1797,) labels, as bundled with scikit-learn.

    Source: Alpaydin & Kaynak 1998, UCI ML repository, doi:10.24432/C50P49 (its test part).
    """
    from sklearn.datasets import load_digits  # imported here: a cached dataset never needs it

    bunch = load_digits()
    return torch.from_numpy(bunch.images)[:, None] / 16, bunch.target


def _to_bytes(images: Tensor) -> np.ndarray:
    return (images.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


def scatter(images: Tensor) -> Tensor:
    """Each image at its own fixed rotation, scale and shift on a 16x16 canvas.

    Args:
        images: (N, 1, 8, 8) float64 in [0, 1]; image i's pose depends on i alone.

    Returns:
        (N, 1, 16, 16) float64, bilinear, black outside the digit's own square.
    """
    n = len(images)
    # RandomState: NumPy froze its stream for good (NEP 19), so the images never change.
    draws = torch.from_numpy(np.random.RandomState(SCATTER_SEED).random_sample((n, 4)))
    angle = (draws[:, 0] * 2 - 1) * math.radians(MAX_ROTATION)
    shrink = 1 + draws[:, 1] * (MAX_SHRINK - 1)
    # affine_grid's unit is half a canvas, and it maps the output's points to the input's
    shift = (draws[:, 2:] * 2 - 1) * 2 * MAX_SHIFT
    turn = shrink[:, None, None] * torch.stack(
        [angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=1
    ).view(n, 2, 2)
    inverse = torch.cat([turn, -turn @ shift[:, :, None]], dim=2)  # (N, 2, 3)
    large = functional.interpolate(
        images, size=(CANVAS, CANVAS), mode="bilinear", align_corners=False
    )
    grid = functional.affine_grid(inverse, list(large.shape), align_corners=False)
    return functional.grid_sample(large, grid, mode="bilinear", align_corners=False)


def decode(*, scattered: bool) -> Decoded:
    """The images, all of them training images: the source fixes no splits."""
    images, labels = _digits()
    images = scatter(images) if scattered else images
    shape = tuple(images.shape[1:])
    return Decoded(tuple("0123456789"), shape, {"train": whole(_to_bytes(images), labels)})
