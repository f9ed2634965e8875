"""The form of a layout on disk, and of what is read from it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrastive.data.types import DataError

Chunk = tuple[np.ndarray, np.ndarray]  # images (b, C, H, W) uint8, labels (b,) int64


@dataclass(frozen=True)
class Stream:
    """One split as it is decoded, piece by piece: STL-10 alone is 2.9 GB.

    Attributes:
        count: N, the number of images that `chunks` will yield in all.
        chunks: pairs of images (b, C, H, W) uint8 and labels (b,) int64, -1 unlabelled.
    """

    count: int
    chunks: Iterator[Chunk]


@dataclass(frozen=True)
class Decoded:
    """A source's own splits, before ours are drawn.

    Attributes:
        classes: C names, in the order of the labels.
        shape: (channels, height, width) of every image.
        splits: "train", and where the source has them "val", "test" and "unlabelled".
        augmentation: "digits" or "natural"; None: the source's.
    """

    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    splits: dict[str, Stream]
    augmentation: str | None = None


@dataclass(frozen=True)
class Format:
    """A layout on disk.

    Attributes:
        hint: what to put into the dataset's folder, in words, for error messages.
        find: the dataset's files under a folder; None when nothing of this layout is there.
            Raises DataError when only some of them are there.
        decode: reads those files, for images of a given side in pixels, or None for their own
            size. Layouts of arrays may leave that side to the caller, who resizes them. Raises
            DataError, naming the file, when one is damaged.
    """

    hint: str
    find: Callable[[Path], list[Path] | None]
    decode: Callable[[Path, list[Path], int | None], Decoded]


def at_a_time(shape: tuple[int, ...]) -> int:
    """Images (C, H, W) uint8 in a chunk: 64 MB of them, whatever their size; 1,000 at most."""
    return max(1, min(1000, 2**26 // math.prod(shape)))


def whole(images: np.ndarray, labels: np.ndarray) -> Stream:
    """A split that is in memory already: images (N, C, H, W) uint8, labels (N,)."""
    return Stream(len(images), iter([(images, labels.astype(np.int64))]))


def complete(folder: Path, names: list[str], *, what: str) -> list[Path] | None:
    """The named files of `folder`, None when none is there; DataError lists missing ones."""
    files = [folder / name for name in names]
    missing = [file.name for file in files if not file.is_file()]
    if len(missing) == len(files):
        return None
    if missing:
        raise DataError(
            f"{folder} is incomplete: {', '.join(missing)} missing\n"
            f"  allowed: {what} with {', '.join(names)}\n"
            "  try: unpack the archive again, or delete the folder so that it is downloaded again"
        )
    return files


def damaged(file: Path, why: str) -> DataError:
    """The error for a source file that cannot be read or is not what it should be."""
    return DataError(
        f"{file} is damaged or of another format: {why}\n"
        "  try: delete it and fetch it again from where it came"
    )


def check_labels(source: Path | str, largest: int, images: int) -> None:
    """Refuse a label for which the training images cannot have one of each class before it.

    Raises:
        DataError: the classes, named or counted up to it, would fill the memory for nothing.
    """
    if largest >= images:
        raise DataError(
            f"{source} has the label {largest} among {images} training images\n"
            "  allowed: classes numbered from 0, each with at least one image\n"
            "  try: number the classes without gaps"
        )


def check_published(file: Path, md5: str) -> None:
    """Compare a file of published size with its published checksum, as torchvision does.

    Call it only for files that hold as many images as the published ones: a user's own subset
    in the same layout is accepted and has no published checksum.

    Raises:
        DataError: the checksums differ.
    """
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise damaged(file, f"its md5 is {found}, the published file's is {md5}")
