"""The τ⁺ that the labels of a dataset imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
