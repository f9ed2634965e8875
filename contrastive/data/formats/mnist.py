"""The reader of MNIST's idx files, packed or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from contrastive.data.formats.base import Decoded, Format, Stream, damaged, whole
from contrastive.data.types import DataError

CLASSES = tuple("0123456789")
SHAPE = (1, 28, 28)
PARTS = {"train": "train", "test": "t10k"}
MOST_BYTES = 800_000_000  # EMNIST, the largest of MNIST's kin, has 640 MB
FOLDERS = ("MNIST/raw", "raw", ".")


def _names(part: str) -> tuple[str, str]:
    return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"


def _present(folder: Path, name: str) -> Path | None:
    """The packed file if it is there, since it has a checksum; else the unpacked one."""
    return next((f for f in (folder / f"{name}.gz", folder / name) if f.is_file()), None)


def _find(root: Path) -> list[Path] | None:
    wanted = [name for part in PARTS.values() for name in _names(part)]
    for folder in (root / below for below in FOLDERS):
        files = [_present(folder, name) for name in wanted]
        missing = [name for name, file in zip(wanted, files, strict=True) if file is None]
        if missing and len(missing) < len(wanted):
            raise DataError(
                f"{folder} is incomplete: {', '.join(missing)} missing (packed as .gz or not)\n"
                f"  allowed: {', '.join(wanted)}\n  try: fetch the missing files too"
            )
        if not missing:
            return [file for file in files if file is not None]
    return None


def _read_idx(file: Path, dimensions: int) -> np.ndarray:
    """An idx file of bytes: magic 0x0000 08 <dimensions>, big-endian sizes, data."""
    size = 4 + 4 * dimensions
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            head = stream.read(size)
            if len(head) < size or head[:4] != bytes((0, 0, 8, dimensions)):
                what = f"it does not begin as an idx file of bytes in {dimensions} dimensions"
                raise damaged(file, what)
            shape = tuple(int(n) for n in np.frombuffer(head, ">u4", dimensions, offset=4))
            expected = math.prod(shape)
            if expected > MOST_BYTES:
                raise damaged(file, f"its head announces {expected} bytes of data")
            # And no more: a packed file can be a thousand times as large once it is unpacked.
            content = stream.read(expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(file, f"not a whole gzip file ({error})") from error
    if len(content) != expected:
        held = f"more than {expected}" if len(content) > expected else f"{len(content)}"
        raise damaged(file, f"it holds {held} bytes of data; its head announces {expected}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_part(images_file: Path, labels_file: Path) -> Stream:
    images, labels = _read_idx(images_file, 3), _read_idx(labels_file, 1)
    if images.shape[1:] != (28, 28) or len(images) == 0:
        raise damaged(images_file, f"its images have shape {images.shape}, not (N, 28, 28)")
    if len(labels) != len(images):
        raise damaged(labels_file, f"{len(labels)} labels for {len(images)} images")
    if labels.max() > 9:
        raise damaged(labels_file, f"label {labels.max()} is not a digit")
    return whole(images[:, None], labels)


def _decode(root: Path, files: list[Path], size: int | None) -> Decoded:
    pairs = (files[:2], files[2:])
    splits = {split: _read_part(*pair) for split, pair in zip(PARTS, pairs, strict=True)}
    return Decoded(CLASSES, SHAPE, splits)


MNIST = Format(
    hint="torchvision's layout: MNIST/raw/ with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, packed as .gz or not",
    find=_find,
    decode=_decode,
)
