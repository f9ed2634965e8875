"""The length of a training: epochs, steps, and how much of the last epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from contrastive.data import DATASETS, DataError
from contrastive.data.memory import refuse_above_memory

if TYPE_CHECKING:
    from contrastive.config import TrainConfig


class Extent(NamedTuple):
    """The length of a training.

    With a budget of seconds `epochs` is the limit, and time may end the training before.
    """

    epochs: int
    steps: int  # of a whole epoch
    last_steps: int  # of the last epoch, 1 to `steps`

    @property
    def all_steps(self) -> int:
        """Steps of the whole training."""
        return (self.epochs - 1) * self.steps + self.last_steps

    def steps_of(self, epoch: int) -> int:
        """Steps of one epoch, counted from 1."""
        return self.last_steps if epoch == self.epochs else self.steps


def extent(config: TrainConfig, images: int) -> Extent:
    """How long `config` trains on `images` images.

    Raises:
        DataError: not even one batch fits.
    """
    steps = batches(config, images)
    if config.budget is None or config.budget.views is None:
        return Extent(config.epochs, steps, steps)
    total = math.ceil(config.budget.views / views_per_step(config))
    epochs = math.ceil(total / steps)
    return Extent(epochs, steps, total - (epochs - 1) * steps)


def views_per_step(config: TrainConfig) -> int:
    """Views that the encoder sees in one step."""
    return config.batch_size * (config.num_positives + 1)


def batches(config: TrainConfig, images: int) -> int:
    """Batches per epoch; the incomplete last one is dropped, its images come in other epochs.

    Raises:
        DataError: not even one batch fits.
    """
    if config.batch_size > images:
        raise DataError(
            f"batch_size is {config.batch_size}, the training split has {images} images; "
            f"allowed: 2 to {images}; try: batch_size: {max(2, images // 4)}"
        )
    return images // config.batch_size


def check_batch_fits(config: TrainConfig) -> None:
    """Refuse an `image_size` at which not even the pixels of a batch fit into memory.

    Raises:
        DataError: with the numbers, before any image is looked at.
    """
    size, views = config.image_size, views_per_step(config)
    if size is not None:
        known = DATASETS[config.dataset].shape if config.dataset in DATASETS else None
        # float32, as augmented and as normalised; 1 channel where the images are not known yet.
        shape = (known[0] if known else 1, size, size)
        refuse_above_memory(f"the {views:,} views of a batch", views * 2 * 4, shape)
