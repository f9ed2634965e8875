"""The data: the images that a training sees, and those that judge it."""

from contrastive.data.load import image_shape, load_dataset, load_prepared, prepare, train_images
from contrastive.data.priors import implied_tau_plus
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
    "train_images",
]
