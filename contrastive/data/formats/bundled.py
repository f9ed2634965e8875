"""The format of a dataset that comes with an installed package."""

from __future__ import annotations

from pathlib import Path

from contrastive.data.formats.base import Decoded, Format


def bundled(*, scattered: bool) -> Format:
    """scikit-learn's digits as a format without files."""

    def decode(root: Path, files: list[Path], size: int | None) -> Decoded:
        # Not above: it takes PyTorch, which is not needed for images that are in the cache.
        from contrastive.data.formats import digits

        return digits.decode(scattered=scattered)

    return Format(
        hint="nothing: the images come with scikit-learn", find=lambda root: [], decode=decode
    )
