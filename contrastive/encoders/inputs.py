"""The images of a training as its encoder sees them: normalised, in the training's precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contrastive.data.formats.base import at_a_time


@dataclass(frozen=True)
class Inputs:
    """Normalisation and precision of one training, the same in its steps and its evaluations.

    Attributes:
        mean, std: (1, C, 1, 1) of the training images, on the device.
        reduced: the precision of the encoder's arithmetic; None: float32 throughout.
    """

    mean: Tensor
    std: Tensor
    reduced: torch.dtype | None

    @classmethod
    def of(cls, images: Tensor, *, precision: str) -> Inputs:
        """Those of a training on `images` (N, C, H, W) uint8, already on the device."""
        return cls(*channel_statistics(images), reduced_dtype(precision, images.device))

    def normalise(self, images: Tensor) -> Tensor:
        """(B, C, H, W) float in [0, 1] -> the same with mean 0 and deviation 1, channels last."""
        images = (images - self.mean) / self.std
        return images.contiguous(memory_format=torch.channels_last)

    def autocast(self) -> torch.autocast:
        """The context in which the encoder runs."""
        return torch.autocast(
            self.mean.device.type,
            dtype=self.reduced or torch.bfloat16,
            enabled=bool(self.reduced),
        )


def reduced_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """bfloat16 where asked for, or where a GPU has it; else None: float32 throughout."""
    if precision == "bfloat16":
        return torch.bfloat16
    if precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.bfloat16
    return None


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per channel of the training images, each (1, C, 1, 1)."""
    channels = images.shape[1]
    grey_levels = torch.arange(256, device=images.device, dtype=torch.float64) / 255
    # From histograms, some images at a time: exact, and no wider copy of the whole split.
    counts = torch.zeros(channels, 256, dtype=torch.float64, device=images.device)
    for part in images.split(at_a_time(images.shape[1:])):
        for c in range(channels):
            counts[c] += torch.bincount(part[:, c].flatten().int(), minlength=256)
    weights = counts / counts.sum(1, keepdim=True)
    mean = weights @ grey_levels
    std = (weights @ grey_levels.square() - mean.square()).clamp(min=1e-12).sqrt()
    return mean.float().view(1, -1, 1, 1), std.float().view(1, -1, 1, 1)
