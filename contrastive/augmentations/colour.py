"""Colour augmentation: brightness, contrast, saturation, hue and grey scale, image by image.

Each function equals the torchvision functional of the same purpose, with one factor per image.
"""

from __future__ import annotations

import torch
from torch import Tensor

from contrastive.device import constant, waits

# ITU-R 601-2 luma, the weights of Pillow and torchvision.
_LUMA = (0.2989, 0.587, 0.114)


def grey(images: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, 1, H, W) luma."""
    red, green, blue = images.split(1, dim=1)
    return (red * _LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


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
    red, green, blue = images.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = value - low
    # Which channel is the highest, as numbers 0 and 1: torch.where and == take ten times as long
    # as arithmetic on a CPU. Of equals the first counts.
    red_top = 1 - (value - red).sign_()
    green_top = (1 - (value - green).sign_()).mul_(1 - red_top)
    blue_top = 1 - red_top - green_top
    ahead = (green - blue).mul_(red_top)
    ahead += (blue - red).mul_(green_top)
    ahead += (red - green).mul_(blue_top)
    # A grey pixel has no hue: 0 / 1e-12 is as good as any, since its chroma of 0 multiplies it.
    sixths = ahead.div_(chroma.clamp(min=1e-12)).add_(6 * factor[:, None, None])
    sixths.add_(green_top, alpha=2).add_(blue_top, alpha=4)
    # Modulo 6, by floor: several times faster than `%` on floats.
    sixths -= (sixths * (1 / 6)).floor_().mul_(6)
    # HSV back to RGB: red is |s - 3| - 1, green 2 - |s - 2|, blue 2 - |s - 4|, each clamped to
    # [0, 1], times the chroma, above the lowest channel.
    centre, sign, bias = constant(_SECTORS, images).view(3, 1, 3, 1, 1)
    share = (sixths[:, None] - centre).abs_().mul_(sign).add_(bias).clamp_(0, 1)
    return share.mul_(chroma[:, None]).add_(low[:, None])


_SECTORS = ((3.0, 2.0, 4.0), (1.0, -1.0, -1.0), (-1.0, 2.0, 2.0))


BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)


def jitter(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Apply the four colour changes to each image, in each image's own order.

    Brightness, contrast and saturation are one formula, f·x + (1 - f)·other, with black, the mean
    luma or the luma for `other`. So each of the four steps is that formula for the whole batch,
    f = 1 where it is the hue's turn, and then the hue of those images alone.

    Args:
        images: (B, 3, H, W) in [0, 1]; changed in place.
        factors: (B, 4) for brightness, contrast, saturation and hue; 1, 1, 1 and 0 leave an image
            as it is.
        order: (B, 4) permutations of 0..3: step -> which change.

    Returns:
        (B, 3, H, W) in [0, 1].
    """
    drawn = factors.gather(1, order)  # (B, 4): the factor of each step
    drawn = torch.where(order == HUE, 1.0, drawn)
    rest = 1 - drawn
    of_mean = torch.where(order == CONTRAST, rest, 0.0)
    of_luma = torch.where(order == SATURATION, rest, 0.0)
    turn = factors[:, HUE]
    if waits(images.device):
        return _jitter_without_waiting(images, drawn, of_mean, of_luma, turn, order)
    for step in range(4):
        _change(images, drawn[:, step], of_mean[:, step], of_luma[:, step])
        due = ((order[:, step] == HUE) & (turn != 0)).nonzero()[:, 0]
        if len(due):
            images.index_copy_(0, due, hue(images[due], turn[due]))
    return images


def _jitter_without_waiting(
    images: Tensor, drawn: Tensor, of_mean: Tensor, of_luma: Tensor, turn: Tensor, order: Tensor
) -> Tensor:
    """The steps before each image's hue, the hue of all images at once, and the steps after it.

    Nobody needs to know whose turn it is: a step on the other side of an image's hue has f = 1,
    which changes nothing. Seven changes of the batch, where one hue per step would be eight, four
    of them of the dear kind.
    """
    hues = (order == HUE).int().argmax(1, keepdim=True)  # (B, 1): the step of each image's hue
    steps = torch.arange(4, device=order.device)
    for side, turns in ((steps < hues, range(3)), (steps > hues, range(1, 4))):
        factor = torch.where(side, drawn, 1.0)
        mean, luma = torch.where(side, of_mean, 0.0), torch.where(side, of_luma, 0.0)
        for step in turns:
            _change(images, factor[:, step], mean[:, step], luma[:, step])
        if turns.start == 0:
            images = torch.where(_column(turn != 0), hue(images, turn), images)
    return images


def _change(images: Tensor, factor: Tensor, of_mean: Tensor, of_luma: Tensor) -> None:
    """factor·x + of_mean·(mean luma) + of_luma·luma of each image, clamped, in place."""
    luma = grey(images)
    mean = luma.mean(dim=(1, 2, 3)) * of_mean
    luma.mul_(_column(of_luma)).add_(_column(mean))
    torch.addcmul(luma, images, _column(factor), out=images).clamp_(0, 1)


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    factor = _column(factor)
    return (factor * images + (1 - factor) * other).clamp(0, 1)


def _column(factor: Tensor) -> Tensor:
    return factor[:, None, None, None]
