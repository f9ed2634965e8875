"""The seeds of a training: one stream of random numbers for each purpose."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, independent of those for all other purposes.

    Each purpose (`"order", epoch` or `"augmentation", epoch, view, "flip"`) has a stream of its
    own, so that an arm which draws more numbers, more views for one, leaves the others' draws as
    they are: that is what pairs the arms of a study. No generator has to be saved for a resume.

    Example:
        >>> derive(0, "order", 1) == derive(0, "order", 1)
        True
        >>> derive(0, "order", 1) == derive(0, "order", 2)
        False
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator seeded by `derive`: the same draws on every device."""
    import torch  # not above: deriving seeds, all that a study's driver does, needs no PyTorch

    return torch.Generator().manual_seed(derive(seed, *purpose))
