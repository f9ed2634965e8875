"""Geometric augmentation: crop, flip, rotation, scale and shift."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.device import constant


def crop_boxes(
    attempts: Tensor,
    position: Tensor,
    *,
    height: int,
    width: int,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Boxes of torchvision's RandomResizedCrop, for a whole batch.

    The first of ten attempts that fits into the image is taken, as in torchvision; an image
    whose ten attempts all fail keeps its largest centred box of an allowed ratio.

    Args:
        attempts: (B, 20) uniform numbers: ten areas, then ten log-ratios.
        position: (B, 2) uniform numbers: where the box lies, vertically and horizontally.
        height, width: of the images, in pixels.
        scale: bounds of the box's area, as a fraction of the image's.
        ratio: bounds of width / height.

    Returns:
        (B, 4) float boxes of whole pixels: top, left, height, width.
    """
    tries = attempts.shape[1] // 2
    area = height * width * _between(attempts[:, :tries], *scale)
    log_ratio = constant(ratio, attempts).log()
    aspect = torch.exp(_between(attempts[:, tries:], log_ratio[0], log_ratio[1]))
    w = torch.round(torch.sqrt(area * aspect))
    h = torch.round(torch.sqrt(area / aspect))
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(1, keepdim=True)
    found = fits.any(1)
    image_ratio = width / height
    fallback_w = float(min(width, round(height * ratio[1]))) if image_ratio > ratio[1] else width
    fallback_h = float(min(height, round(width / ratio[0]))) if image_ratio < ratio[0] else height
    h = torch.where(found, h.gather(1, first)[:, 0], fallback_h)
    w = torch.where(found, w.gather(1, first)[:, 0], fallback_w)
    # torchvision draws an integer in [0, size - box]; floor(u · (size - box + 1)) is the same law.
    top = torch.where(found, (position[:, 0] * (height - h + 1)).floor(), (height - h) // 2)
    left = torch.where(found, (position[:, 1] * (width - w + 1)).floor(), (width - w) // 2)
    return torch.stack([top, left, h, w], dim=1)


def crop_resize_flip(images: Tensor, boxes: Tensor, flip: Tensor) -> Tensor:
    """Each image's box, resized to the full image by bilinear interpolation, perhaps mirrored.

    Bilinear resizing is separable: two small matrices per image, rows then columns, with the
    mirroring folded into the columns. That is several times faster on a CPU than `grid_sample`
    and equals torchvision's `resized_crop(..., antialias=False)`.

    Args:
        images: (B, C, H, W) float.
        boxes: (B, 4) top, left, height, width in pixels.
        flip: (B,) bool, mirror left to right.

    Returns:
        (B, C, H, W) float.
    """
    height, width = images.shape[-2:]
    rows = _resize_matrix(boxes[:, 0], boxes[:, 2], height, images.dtype)  # (B, H, H)
    columns = _resize_matrix(boxes[:, 1], boxes[:, 3], width, images.dtype)  # (B, W, W)
    columns = torch.where(flip[:, None, None], columns.flip(1), columns)
    return rows[:, None] @ images @ columns.transpose(1, 2)[:, None]


def _resize_matrix(start: Tensor, length: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """(B, size, size) weights: output position × input position of a 1-D bilinear resize."""
    output = torch.arange(size, device=start.device, dtype=dtype)
    position = (output + 0.5) * (length / size)[:, None] - 0.5
    # Clamped to the box, not to the image: a crop does not see the pixels outside of it.
    position = start[:, None] + position.clamp(min=0).minimum(length[:, None] - 1)
    return (1 - (position[..., None] - output).abs()).clamp(min=0)


def affine(images: Tensor, *, angle: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Rotate, scale and shift each image about its centre; what comes from outside is 0.

    Equals torchvision's `affine` with bilinear interpolation and no shear.

    Args:
        images: (B, C, S, S) float, square.
        angle: (B,) degrees, clockwise as in torchvision.
        scale: (B,) > 0; above 1 enlarges.
        shift: (B, 2) pixels to the right and down.

    Returns:
        (B, C, S, S) float.
    """
    size = images.shape[-1]
    radians = torch.deg2rad(angle)
    cos, sin = torch.cos(radians) / scale, torch.sin(radians) / scale
    shift = shift * (2 / size)  # normalised coordinates run over 2 units
    # The inverse map, output -> input: rotate back and rescale what lies relative to the shift.
    row_x = torch.stack([cos, sin, -cos * shift[:, 0] - sin * shift[:, 1]], dim=1)
    row_y = torch.stack([-sin, cos, sin * shift[:, 0] - cos * shift[:, 1]], dim=1)
    grid = F.affine_grid(
        torch.stack([row_x, row_y], dim=1), list(images.shape), align_corners=False
    )
    return F.grid_sample(images, grid, align_corners=False)


def _between(uniform: Tensor, low: float | Tensor, high: float | Tensor) -> Tensor:
    return low + (high - low) * uniform
