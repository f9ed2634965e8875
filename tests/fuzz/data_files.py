"""Files of pictures and labels with wrong bytes: each is read, or is refused in one message.

python -m tests.fuzz.data_files --count 2000 --seed 1
"""

from __future__ import annotations

import functools
import io
import pickle
import random
import struct
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from contrastive.data.formats import cifar, mnist
from contrastive.data.formats.pictures import open_picture
from contrastive.data.types import DataError
from tests.fuzz.bounded import Outcome, bounded
from tests.fuzz.campaign import main

KINDS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")


@functools.cache
def picture(kind: str) -> bytes:
    """A small picture, a JPEG with EXIF."""
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112], exif[0x010E], exif[0x011A] = 6, "a description", 72.0  # turned, text, a ratio
    options = {"exif": exif} if kind in ("JPEG", "WEBP", "PNG", "TIFF") else {}
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


@functools.cache
def digits() -> bytes:
    """An idx file of four images."""
    return struct.pack(">IIII", 0x803, 4, 28, 28) + bytes(4 * 784)


@functools.cache
def batch() -> bytes:
    """A CIFAR-10 batch of four images."""
    return pickle.dumps({"data": np.zeros((4, 3072), np.uint8), "labels": [0, 1, 2, 3]})


def mutated(rng: random.Random) -> tuple[str, bytes]:
    """The kind of a file and its content, with wrong bytes, most of them in its head."""
    kind = rng.choice((*KINDS, "JPEG", "idx", "pickle"))
    content = bytearray(
        digits() if kind == "idx" else batch() if kind == "pickle" else picture(kind)
    )
    for _ in range(rng.choice((1, 1, 2, 8))):
        span = min(len(content), rng.choice((16, 200, 10**6)))
        content[rng.randrange(span)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    if rng.random() < 0.1:
        del content[rng.randrange(len(content)) :]
    return kind, bytes(content)


def tried(rng: random.Random) -> tuple[tuple[str, bytes], Outcome]:
    """One file, and what became of it."""
    kind, content = mutated(rng)
    return (kind, content), read(kind, content)


def read(kind: str, content: bytes, *, suffix: str = "") -> Outcome:
    """What the readers make of a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"file{suffix}"
        file.write_bytes(content)
        return bounded(lambda: _read(kind, file))


def _read(kind: str, file: Path) -> int:
    try:
        if kind == "idx":
            print(mnist._read_idx(file, 3).shape)
        elif kind == "pickle":
            print(cifar._read_batch(file, "labels", 10)[0].shape)
        else:
            with file.open("rb") as stream:
                print(open_picture(stream).size)
    except DataError as error:
        print(ascii(str(error)))
        return 2
    except ValueError as error:  # `open_picture` leaves it to its callers to name the file
        print(ascii(str(error)))
        return 2
    return 0


if __name__ == "__main__":
    main(tried)
