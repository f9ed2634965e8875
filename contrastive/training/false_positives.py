"""False positives: images of other classes that stand in for an image's own view."""

from __future__ import annotations

import torch
from torch import Tensor

from contrastive.data import DataError


def other_class(labels: Tensor, uniform: Tensor) -> Tensor:
    """For each image the index of an image of another class, uniform over all of those.

    Args:
        labels: (N,) integers >= 0, of at least two classes.
        uniform: (N,) numbers in [0, 1), one per image.

    Returns:
        (N,) indices j with labels[j] != labels[i].

    Raises:
        DataError: an image has no label, or all images are of one class.

    Source: the noise of the preprint's published code (its text speaks of blur instead).
    """
    if bool((labels < 0).any()):
        raise DataError(
            "false_positive_rate needs a label for every training image; this dataset has "
            "unlabelled ones; try: false_positive_rate: 0, or blur_prob as the noise"
        )
    sizes = torch.bincount(labels)
    if int((sizes > 0).sum()) < 2:
        raise DataError("false_positive_rate needs images of at least two classes; found one")
    by_class = torch.argsort(labels, stable=True)
    start = torch.cumsum(sizes, 0) - sizes
    others = len(labels) - sizes[labels]
    # In the list sorted by class, skip the block of the image's own class.
    place = (uniform.double() * others).long().minimum(others - 1)
    place = torch.where(place >= start[labels], place + sizes[labels], place)
    return by_class[place]
