"""How do brightness, contrast, saturation, hue and grey scale change, image by image?

Each function equals the torchvision functional of the same purpose, with one factor per image.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# ITU-R 601-2 luma, the weights of Pillow and torchvision.
_LUMA = (0.2989, 0.587, 0.114)


def grey(images: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, 1, H, W) luma."""
    red, green, blue = images.unbind(1)
    return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).unsqueeze(1)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """(B, C, H, W) in [0, 1] times factor (B,), clamped."""
    return (images * _column(factor)).clamp(0, 1)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean luma of each image; factor (B,), 1 changes nothing."""
    luma = grey(images) if images.shape[1] == 3 else images
    return _blend(images, luma.mean(dim=(1, 2, 3), keepdim=True), factor)


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image's own grey version; factor (B,), 0 is grey."""
    return _blend(images, grey(images), factor)


def hue(images: Tensor, factor: Tensor) -> Tensor:
    """Turn the hue by factor (B,) in [-0.5, 0.5] of the full circle."""
    value, index = images.max(1)
    low = images.amin(1)
    chroma = value - low
    red, green, blue = images.unbind(1)
    safe = torch.where(chroma == 0, 1, chroma)
    sixths = torch.where(
        index == 0,
        (green - blue) / safe,
        torch.where(index == 1, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    angle = torch.where(chroma == 0, 0, sixths / 6) + factor[:, None, None]
    # HSV back to RGB in closed form: channel n is V - C·max(0, min(k, 4 - k, 1)),
    # k = (n + 6·hue) mod 6, n = 5, 3, 1.
    offsets = torch.tensor([5.0, 3.0, 1.0], device=images.device, dtype=images.dtype)
    k = (offsets[:, None, None] + 6 * angle[:, None]) % 6
    return value[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp(0, 1)


JITTERS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (brightness, contrast, saturation, hue)


def jitter(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Apply the four colour changes to each image, in each image's own order.

    Args:
        images: (B, 3, H, W) in [0, 1]; not changed.
        factors: (B, 4) for brightness, contrast, saturation and hue, on the images' device.
        order: (B, 4) permutations of 0..3 on the CPU: step -> which change. On the CPU, so that
            forming the groups below never waits for a GPU.

    Returns:
        (B, 3, H, W) in [0, 1].
    """
    images = images.clone()
    for step in range(len(JITTERS)):
        for which, change in enumerate(JITTERS):
            group = (order[:, step] == which).nonzero()[:, 0].to(images.device, non_blocking=True)
            if len(group):
                images[group] = change(images[group], factors[group, which])
    return images


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    factor = _column(factor)
    return (factor * images + (1 - factor) * other).clamp(0, 1)


def _column(factor: Tensor) -> Tensor:
    return factor[:, None, None, None]
