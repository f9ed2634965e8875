"""The pipelines of random changes that make a view: one for natural images, one for digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from contrastive.augmentations.blur import gaussian_blur
from contrastive.augmentations.colour import grey, jitter
from contrastive.augmentations.draws import Draws
from contrastive.augmentations.geometry import affine, crop_boxes, crop_resize_flip
from contrastive.device import constant, waits

_BLUR = {"blur": 1, "sigma": 1}


@dataclass(frozen=True)
class Pipeline:
    """One family of views: what it draws per view, and what it does with the draws."""

    widths: Mapping[str, int]
    apply: Callable[..., Tensor]  # (images, draws, *, blur_prob) -> images

    def __call__(self, images: Tensor, draws: Draws, *, blur_prob: float) -> Tensor:
        """One view of each image.

        Args:
            images: (B, C, H, W) float in [0, 1].
            draws: one row per image, on the device of the images.
            blur_prob: probability that a view is blurred.

        Returns:
            (B, C, H, W) float in [0, 1].
        """
        return self.apply(images, draws, blur_prob=blur_prob)


def natural(images: Tensor, draws: Draws, *, blur_prob: float) -> Tensor:
    """SimCLR's views of colour images, as listed by Chuang et al. 2020, Figure 6.

    Random resized crop, mirroring with probability 0.5, colour jitter (0.4, 0.4, 0.4, 0.1) with
    probability 0.8 in random order, grey with probability 0.2, 3×3 Gaussian blur with σ in
    [0.1, 2]. Departures: the listing blurs every view; `blur_prob` blurs that share of them.
    """
    height, width = images.shape[-2:]
    boxes = crop_boxes(draws["crop"], draws["position"], height=height, width=width)
    images = crop_resize_flip(images, boxes, draws["flip"] < 0.5)
    if images.shape[1] == 3:
        strength = constant(_STRENGTH, images) * (draws["jitter"] < 0.8)[:, None]
        factors = (2 * draws["factors"] - 1) * strength + constant(_UNCHANGED, images)
        images = jitter(images, factors, draws["order"].argsort(1))
        images = _where(draws["grey"] < 0.2, images, lambda x, _: grey(x).expand(-1, 3, -1, -1))
    return _blurred(images, draws, blur_prob)


_STRENGTH = (0.4, 0.4, 0.4, 0.1)
_UNCHANGED = (1.0, 1.0, 1.0, 0.0)


def digits(images: Tensor, draws: Draws, *, blur_prob: float) -> Tensor:
    """Views of handwritten digits: rotation, scale, shift, brightness, blur; never mirrored.

    Rotation within ±45°, scale in [0.7, 1.3], shift up to a tenth of the canvas in both
    directions, brightness factor in [0.6, 1.4], 3×3 Gaussian blur with probability `blur_prob`.
    """
    factor = 0.6 + 0.8 * draws["brightness"]
    images = affine(
        images,
        angle=90 * draws["angle"] - 45,
        scale=0.7 + 0.6 * draws["scale"],
        shift=(2 * draws["shift"] - 1) * images.shape[-1] / 10,
    )
    return _blurred((images * factor[:, None, None, None]).clamp(0, 1), draws, blur_prob)


PIPELINES: dict[str, Pipeline] = {
    "natural": Pipeline(
        {"crop": 20, "position": 2, "flip": 1, "jitter": 1, "factors": 4, "order": 4, "grey": 1}
        | _BLUR,
        natural,
    ),
    "digits": Pipeline({"angle": 1, "scale": 1, "shift": 2, "brightness": 1} | _BLUR, digits),
}


def _blurred(images: Tensor, draws: Draws, blur_prob: float) -> Tensor:
    sigma = draws["sigma"]
    return _where(
        draws["blur"] < blur_prob,
        images,
        lambda x, rows: gaussian_blur(x, 0.1 + 1.9 * sigma[rows]),
    )


def _where(
    mask: Tensor, images: Tensor, change: Callable[[Tensor, Tensor | slice], Tensor]
) -> Tensor:
    """`images` with `change` applied where `mask` (B,) is true.

    On a CPU the chosen rows alone are changed, in place: they are this pipeline's own. A GPU would
    be waited for to learn how many they are: there all rows are changed and the mask chooses.

    Args:
        change: takes images and the rows of the batch that they are.
    """
    if waits(images.device):
        return torch.where(mask[:, None, None, None], change(images, slice(None)), images)
    chosen = mask.nonzero()[:, 0]
    return images.index_copy_(0, chosen, change(images[chosen], chosen)) if len(chosen) else images
