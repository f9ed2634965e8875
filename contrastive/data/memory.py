"""The memory of this machine, and whether images fit into it."""

from __future__ import annotations

import math
import os

from contrastive.data.types import DataError


def total_memory() -> int:
    """Bytes of main memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def refuse_above_memory(what: str, pixels_bytes: int, shape: tuple[int, int, int]) -> None:
    """Refuse images that cannot be held, before any of them is made.

    Args:
        what: they are, as the beginning of the message.
        pixels_bytes: bytes for each pixel of one channel, over all images.
        shape: (C, H, W) of an image.

    Raises:
        DataError: with what they take, what there is, and the largest `image_size` that fits.
    """
    channels, height, width = shape
    wanted, memory = pixels_bytes * math.prod(shape), total_memory()
    if wanted <= memory:
        return
    largest = math.isqrt(memory // (pixels_bytes * channels))
    error = DataError(
        f"{what} of {height}x{width} pixels, {_gigabytes(wanted)}, do not fit into the "
        f"{_gigabytes(memory)} of memory of this machine\n"
        f"  allowed: image_size up to {largest:,}\n  try: image_size: {min(96, largest)}"
    )
    error.settings = ("image_size", "dataset_path", "dataset")
    raise error


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
