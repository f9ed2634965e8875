"""The data: the images that a training sees, and those that judge it."""

from contrastive.data.labels import implied_tau_plus, refuse_unlabelled
from contrastive.data.load import (
    image_shape,
    load_dataset,
    load_prepared,
    prepare,
    train_images,
    train_labels,
)
from contrastive.data.sources import DATASETS
from contrastive.data.types import DataError, Dataset, Split

__all__ = [
    "DATASETS",
    "DataError",
    "Dataset",
    "Split",
    "image_shape",
    "implied_tau_plus",
    "load_dataset",
    "load_prepared",
    "prepare",
    "refuse_unlabelled",
    "train_images",
    "train_labels",
]
