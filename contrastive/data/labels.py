"""What the labels of a dataset imply, and what needs every one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from contrastive.data.types import DataError

if TYPE_CHECKING:
    from torch import Tensor


def implied_tau_plus(labels: Tensor | np.ndarray) -> float:
    """The chance that two images drawn at random share a class: τ⁺ = Σ_c π_c².

    With C equally common classes it is 1/C, the value that both papers take as known.

    Source: τ⁺ of Chuang et al. 2020, arXiv:2007.00224, section 3, whose p(x, x⁺) marginalises
    over an anchor's class; for unequal classes its mean over anchors.

    Args:
        labels: (N,) integer class of each image; -1 (unlabelled) is ignored.

    Returns:
        τ⁺ in (0, 1].

    Raises:
        DataError: no image has a label.

    Example:
        >>> implied_tau_plus(np.array([0, 0, 0, 1, -1]))
        0.625
    """
    labels = np.asarray(labels)
    labelled = labels[labels >= 0]
    if len(labelled) == 0:
        raise DataError(
            "tau_plus cannot be taken from the labels: no training image has one\n"
            "  try: a number in (0, 1), e.g. tau_plus: 0.1"
        )
    shares = np.bincount(labelled) / len(labelled)
    return float(np.square(shares).sum())


def refuse_unlabelled(labels: Tensor | np.ndarray, needed_by: Mapping[str, Any]) -> None:
    """Refuse training images without a label where settings would pass over them in silence.

    Args:
        labels: (N,) of the training images; -1 means unlabelled.
        needed_by: settings that need them all, by name.

    Raises:
        DataError: some have none.
    """
    labels = np.asarray(labels)
    missing = int((labels < 0).sum())
    if not missing or not needed_by:
        return
    name, value = next(iter(needed_by.items()))
    error = DataError(
        f"{name} is {value}, which needs the label of every training image: {missing:,} of "
        f"{len(labels):,} have none (-1)\n"
        "  allowed: a dataset whose training images all have labels\n"
        f"  try: leave {name} out, or leave those images out of the dataset"
    )
    error.settings = (name,)
    raise error


def refuse_unlearnable(name: str, classes: tuple[str, ...], labels: Mapping[str, Any]) -> None:
    """Refuse splits on which kNN, probe and figures by class cannot be computed.

    Args:
        name: of the dataset.
        classes: C names.
        labels: (N,) of each of the source's splits, "train" among them.

    Raises:
        DataError: an unlabelled image in a held-out split, or a class without a training image.
    """
    trained = set(np.unique(labels["train"]).tolist()) - {-1}
    if not trained:
        raise DataError(
            f"no training image of {name} has a label\n"
            "  allowed: labels of some training images of each class: kNN and linear probe learn "
            "from them, and the loss from all images\n  try: label some, -1 for the others"
        )
    for split in sorted(set(labels) - {"train"}):
        numbers, counts = np.unique(labels[split], return_counts=True)
        if numbers[0] < 0:
            raise DataError(
                f"{counts[0]:,} images of the {split} split of {name} are without a label (-1)\n"
                "  allowed: unlabelled images in the training split only\n"
                "  try: leave them out"
            )
        if unknown := [classes[c] for c in numbers.tolist() if c not in trained]:
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            raise DataError(
                f"the {split} split of {name} has images of {shown}, of which no training image "
                "has the label\n  allowed: classes with labelled training images\n"
                "  try: label some of them, or leave the class out"
            )
