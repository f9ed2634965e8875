"""What a dataset is, and the error that a bad one raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class DataError(ValueError):
    """The user's data or data settings are wrong; the message says what, where and what to do.

    Attributes:
        settings: names of those that it is about, as far as known.
    """

    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Split:
    """Images with their labels, memory-mapped from the cache.

    Attributes:
        images: (N, C, H, W) uint8, 0-255. Writing to it changes this process's copy only.
        labels: (N,) int64 index into `Dataset.classes`; -1 where an image has no label.
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Dataset:
    """Disjoint splits of one dataset.

    Attributes:
        name: its key in `DATASETS`.
        train: the only split that a limit or an imbalance touches; may hold unlabelled images.
        val: labelled; for choosing between settings. None where its images train instead.
        test: labelled; for one reading per confirmation run.
        classes: C names, in the order of the labels.
        augmentation: "digits" or "natural": the augmentation family that suits the images.
    """

    name: str
    train: Split
    val: Split | None
    test: Split
    classes: tuple[str, ...]
    augmentation: str
