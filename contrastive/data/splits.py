"""The splits: which images train, validate and test, and which subset of them trains.

Everything here follows from the labels and the split seed. All draws come from one permutation,
so a smaller `train_limit` takes a subset of what a larger one takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from contrastive.data.types import DataError

VAL_SHARE = 0.1  # of the training split, where the source has a test split but no validation
HELD_OUT_SHARE = 1 / 6  # for validation, and again for test, where the source has neither


@dataclass(frozen=True)
class Choice:
    """The settings that pick images.

    Raises:
        DataError: lists every setting that is out of range.
    """

    split_seed: int = 0
    train_limit: int | None = None
    imbalance: float = 1.0
    validation: bool = True

    def __post_init__(self) -> None:
        faults = []
        if self.split_seed < 0:
            faults.append(f"split_seed is {self.split_seed}\n  allowed: a whole number >= 0")
        if self.train_limit is not None and self.train_limit <= 0:
            faults.append(
                f"train_limit is {self.train_limit}\n"
                "  allowed: a whole number >= the number of classes\n  try: leave it out for all"
            )
        if not 0 < self.imbalance <= 1:
            faults.append(
                f"imbalance is {self.imbalance}\n"
                "  allowed: a number in (0, 1], rarest class / commonest class\n  try: 0.1"
            )
        if faults:
            raise DataError("\n".join(faults))

    @property
    def slug(self) -> str:
        """The choice as part of a folder's name."""
        limit = "" if self.train_limit is None else f"-limit{self.train_limit}"
        imbalance = "" if self.imbalance == 1 else f"-imbalance{float(self.imbalance)!r}"
        validation = "" if self.validation else "-novalidation"
        return f"seed{self.split_seed}{limit}{imbalance}{validation}"


@dataclass(frozen=True)
class Picks:
    """Sorted positions in the source's training split; None: the source's own split is used.

    Without a validation split `val` is empty.
    """

    train: np.ndarray
    val: np.ndarray | None
    test: np.ndarray | None


def pick(
    labels: np.ndarray, choice: Choice, *, classes: int, has_val: bool, has_test: bool
) -> Picks:
    """Carve the missing splits out of the source's training split, then thin what is left.

    Imbalance comes first and the limit second, so `train_limit` counts the images that are
    trained on. Unlabelled images always train; the limit takes its share of them, as of a class.

    Args:
        labels: (N,) of the source's training split, -1 unlabelled.
        choice: seed, limit and imbalance; without validation, the images that it would hold out
            for it train too.
        classes: C, the number of classes.
        has_val: the source has its own validation split.
        has_test: the source has its own test split.

    Returns:
        disjoint positions; every class that the source has is among the training images.

    Raises:
        DataError: `train_limit` below the number of classes, too few images to carve, or no
            validation wanted where the source has its own.
    """
    if has_val and not choice.validation:
        error = DataError(
            "validation is false, but the data have a validation split of their own\n"
            "  allowed: validation: false where that split is taken from the training images\n"
            "  try: move the validation images to the training images"
        )
        error.settings = ("validation",)
        raise error
    if choice.train_limit is not None and choice.train_limit < classes:
        raise DataError(
            f"train_limit is {choice.train_limit}, fewer than the {classes} classes\n"
            f"  allowed: a whole number >= {classes}\n  try: train_limit: {10 * classes}"
        )
    order = _shuffled_evenly(labels, choice.split_seed)
    labelled, unlabelled = order[labels[order] >= 0], order[labels[order] < 0]
    val_size, test_size = _held_out(len(labelled), has_val=has_val, has_test=has_test)
    kept = len(labelled) - val_size - test_size
    if kept < classes or (not has_val and val_size == 0):
        raise DataError(
            f"{len(labelled)} labelled training images of {classes} classes are too few to hold "
            f"out {val_size} for validation and {test_size} for test\n"
            "  try: a larger data set, or splits of your own (folders or shards train, val, test)"
        )
    if not choice.validation:
        kept, val_size = kept + val_size, 0
    train = np.concatenate([labelled[:kept], unlabelled])
    train = _thin(train, labels[train], choice.imbalance, classes)
    train = _spread(train, labels[train])[: choice.train_limit]
    return Picks(
        np.sort(train),
        None if has_val else np.sort(labelled[kept : kept + val_size]),
        None if has_test else np.sort(labelled[kept + val_size :]),
    )


def _held_out(labelled: int, *, has_val: bool, has_test: bool) -> tuple[int, int]:
    """Images to hold out for validation and for test."""
    if has_test:
        return (0 if has_val else round(labelled * VAL_SHARE)), 0
    share = math.ceil(labelled * HELD_OUT_SHARE)  # 300 of the 1,797 digits
    return (0 if has_val else share), share


def _shuffled_evenly(labels: np.ndarray, split_seed: int) -> np.ndarray:
    """All positions in a random order of which every stretch has the classes' proportions."""
    # RandomState: NumPy froze its stream for good (NEP 19), so a split seed keeps its meaning.
    random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(split_seed)))
    shuffled = random.permutation(len(labels))
    return _spread(shuffled, labels[shuffled])


def _spread(positions: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Reorder so that every prefix has the classes' proportions, rounded up.

    Each class keeps its own order. The r-th of a class's n images goes to r/n of the way, hence
    the first C positions are one of each class and a prefix is never short of one.
    """
    rank, size = _ranks(labels)
    return positions[np.argsort(rank / size, kind="stable")]


def _thin(positions: np.ndarray, labels: np.ndarray, imbalance: float, classes: int) -> np.ndarray:
    """Keep imbalance^(c/(C-1)) of class c, at least one image; unlabelled ones all."""
    if imbalance == 1 or classes < 2:
        return positions
    rank, size = _ranks(labels)
    share = np.where(labels < 0, 1.0, imbalance ** (labels / (classes - 1)))
    return positions[rank < np.maximum(1, np.rint(share * size))]


def _ranks(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each position: how many of its class come before it, and how many its class has."""
    _, group, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(starts, sizes)
    return rank, sizes[group]
