"""The uniform numbers that decide the views of an epoch, image by image.

Every number belongs to (seed, epoch, view, image, purpose). It depends neither on the batch size
nor on any probability: raising `blur_prob` from 0.5 to 0.9 keeps each blurred view blurred and
blurs more of them. Arms and conditions of a study are paired down to the single view that way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from contrastive.seeds import generator


@dataclass(frozen=True)
class Draws:
    """Uniform numbers in [0, 1) by purpose, each (rows, width) float32; drawn on the CPU."""

    values: dict[str, Tensor]

    def __getitem__(self, purpose: str) -> Tensor:
        """(rows,) for a purpose of width 1, else (rows, width)."""
        value = self.values[purpose]
        return value[:, 0] if value.shape[1] == 1 else value

    def rows(self, index: Tensor) -> Draws:
        """The draws of the rows in `index` (K,), in that order."""
        return Draws({purpose: value[index] for purpose, value in self.values.items()})

    def to(self, device: torch.device) -> Draws:
        """The same numbers on `device`."""
        return Draws({purpose: value.to(device) for purpose, value in self.values.items()})

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))


def draw_epoch(
    widths: Mapping[str, int], *, seed: int, epoch: int, views: int, images: int
) -> Draws:
    """The draws of one epoch: row v·images + i belongs to view v of image i.

    Args:
        widths: how many numbers each purpose needs for a view.
        seed: of the training.
        epoch: counted from 1.
        views: V, views per image.
        images: N, images of the training split.
    """
    return Draws(
        {
            purpose: torch.cat(
                [
                    torch.rand(
                        images,
                        width,
                        generator=generator(seed, "augmentation", epoch, view, purpose),
                    )
                    for view in range(views)
                ]
            )
            for purpose, width in widths.items()
        }
    )
