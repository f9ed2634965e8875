"""The reader of STL-10's binary files, which holds only a part of their 2.8 GB in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from contrastive.data.formats.base import (
    Chunk,
    Decoded,
    Format,
    Stream,
    check_published,
    complete,
    damaged,
)

CLASSES = tuple(
    ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]
)
SHAPE = (3, 96, 96)
IMAGE_BYTES = 3 * 96 * 96
CHUNK = 1000  # images

# file -> published (bytes, md5), as in torchvision.datasets.STL10
FILES = {
    "train_X.bin": (5_000 * IMAGE_BYTES, "918c2871b30a85fa023e0c44e0bee87f"),
    "train_y.bin": (5_000, "5a34089d4802c674881badbb80307741"),
    "unlabeled_X.bin": (100_000 * IMAGE_BYTES, "5242ba1fed5e4be9e1e742405eb56ca4"),
    "test_X.bin": (8_000 * IMAGE_BYTES, "7f263ba9f9e0b06b93213547f721ac82"),
    "test_y.bin": (8_000, "36f9794fa4beb8a2c72628de14fa638e"),
}


def _find(root: Path) -> list[Path] | None:
    for folder in (root / "stl10_binary", root):
        if files := complete(folder, list(FILES), what="a folder stl10_binary"):
            return files
    return None


def _count(file: Path) -> int:
    size = file.stat().st_size
    if size == 0 or size % IMAGE_BYTES:
        raise damaged(file, f"{size} bytes are not whole images of {IMAGE_BYTES} bytes")
    return size // IMAGE_BYTES


def _labels(file: Path, count: int) -> np.ndarray:
    labels = np.fromfile(file, dtype=np.uint8).astype(np.int64) - 1  # published as 1-10
    if len(labels) != count:
        raise damaged(file, f"{len(labels)} labels for {count} images")
    if labels.min() < 0 or labels.max() > 9:
        raise damaged(file, "its labels are not within 1-10")
    return labels


def _chunks(file: Path, labels: np.ndarray) -> Iterator[Chunk]:
    pixels = np.memmap(file, dtype=np.uint8, mode="r", shape=(len(labels), *SHAPE))
    for start in range(0, len(labels), CHUNK):
        part = slice(start, start + CHUNK)
        yield pixels[part].transpose(0, 1, 3, 2), labels[part]  # published column by column


def _labelled(images: Path, labels: Path) -> Stream:
    count = _count(images)
    return Stream(count, _chunks(images, _labels(labels, count)))


def _decode(root: Path, files: list[Path], size: int | None) -> Decoded:
    for file in files:
        size, md5 = FILES[file.name]
        if file.stat().st_size == size:
            check_published(file, md5)
    train_x, train_y, unlabelled_x, test_x, test_y = files
    unlabelled = _count(unlabelled_x)
    return Decoded(
        CLASSES,
        SHAPE,
        {
            "train": _labelled(train_x, train_y),
            "unlabelled": Stream(unlabelled, _chunks(unlabelled_x, np.full(unlabelled, -1))),
            "test": _labelled(test_x, test_y),
        },
    )


STL10 = Format(
    hint=f"torchvision's layout: a folder stl10_binary with {', '.join(FILES)}",
    find=_find,
    decode=_decode,
)
