"""The batches of an epoch: which images, changed by which draws."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from contrastive.augmentations import Draws, Pipeline, draw_epoch
from contrastive.seeds import generator
from contrastive.training.false_positives import other_class


@dataclass(frozen=True)
class Epoch:
    """The random choices of one epoch, all on one device: the batches follow without waiting.

    Attributes:
        order: (N,) the images in the order of the batches.
        source: (V, N) the image that view v of image i is made of, noise included.
        draws: row v·N + i decides the augmentation of view v of image i.
    """

    order: Tensor
    source: Tensor
    draws: Draws

    def batch(self, step: int, size: int) -> tuple[Tensor, Tensor, Draws]:
        """What the batch of a step is made of.

        Args:
            step: counted from 0.
            size: B, images in a batch.

        Returns:
            (B,) images; (V·B,) the images that their views are made of, and the views' draws.
        """
        index = self.order[step * size : (step + 1) * size]
        views, count = self.source.shape
        offsets = torch.arange(views, device=index.device)[:, None] * count
        rows = (offsets + index).flatten()
        return index, self.source[:, index].flatten(), self.draws.rows(rows)

    def check_labels(self, labels: Tensor, steps: int, size: int) -> None:
        """Refuse a batch of a single label, before the first step.

        The losses that need two refuse it themselves where looking costs nothing; on a GPU they
        would have to wait at every step. Call it on the CPU.

        Args:
            labels: (N,) of the training split; -1 means unlabelled.
            steps: batches of the epoch; `size`: images in a batch.

        Raises:
            ValueError: all images of a batch have the same label.
        """
        drawn = labels[self.order[: steps * size]].view(steps, size)
        if bool(((drawn == drawn[:, :1]).all(1) & (drawn[:, 0] != -1)).any()):
            raise ValueError(
                "all images of a batch have the same label, which leaves no anchor a negative; "
                "allowed: at least two labels in a batch; try: a larger batch"
            )

    def to(self, device: torch.device) -> Epoch:
        """The same on `device`: one transfer, before the first step."""
        return Epoch(self.order.to(device), self.source.to(device), self.draws.to(device))


def draw(
    pipeline: Pipeline,
    labels: Tensor,
    *,
    seed: int,
    epoch: int,
    views: int,
    false_positive_rate: float,
) -> Epoch:
    """The choices of one epoch, drawn on the CPU: the same on every device.

    Args:
        pipeline: of the augmentations.
        labels: (N,) of the training split, on the CPU.
        seed: of the training.
        epoch: counted from 1.
        views: V, views per image.
        false_positive_rate: share of the views, the first excepted, made of other classes' images.
    """
    count = len(labels)
    order = torch.randperm(count, generator=generator(seed, "order", epoch))
    widths = dict(pipeline.widths) | {"false_positive": 1, "partner": 1}
    draws = draw_epoch(widths, seed=seed, epoch=epoch, views=views, images=count)
    return Epoch(order, sources(labels, draws, views, false_positive_rate), draws)


def sources(labels: Tensor, draws: Draws, views: int, false_positive_rate: float) -> Tensor:
    """(V, N) index of the image that each view is made of, noise included."""
    own = torch.arange(len(labels)).expand(views, -1)
    if false_positive_rate == 0:
        return own
    partner = torch.stack([other_class(labels, part) for part in draws["partner"].view(views, -1)])
    replaced = draws["false_positive"].view(views, -1) < false_positive_rate
    replaced[0] = False  # the first view stays the image itself: noise is in its positives
    return torch.where(replaced, partner, own)
