"""Encoded pictures (PNG, JPEG, WebP …) as arrays of bytes."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import IO, Any

import numpy as np

from contrastive.data.types import DataError

MOST_PIXELS = 50_000_000  # of an encoded picture: 200 MB once it is decoded


def open_picture(stream: IO[bytes]) -> Any:
    """A Pillow image, turned as its EXIF tag says, in mode "L" or "RGB".

    Raises:
        ValueError: truncated, no picture, or more than 8 bits per channel.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Pillow's own bound lies above ours, and it warns of what it can read all the same.
            warnings.simplefilter("ignore")
            picture = Image.open(stream)
            width, height = picture.size
            if width * height > MOST_PIXELS:
                what = f"{width}x{height} pixels, more than {MOST_PIXELS // 10**6} million"
                raise ValueError(what)
            picture.load()
            picture = ImageOps.exif_transpose(picture)
    except Exception as error:  # one wrong byte makes Pillow raise nearly anything
        raise ValueError(f"not a whole picture ({error})") from error
    if picture.mode in ("I", "F") or picture.mode.startswith("I;"):
        raise ValueError(f"its pixels are not bytes (Pillow mode {picture.mode})")
    if picture.mode in ("1", "LA", "L"):
        return picture.convert("L")
    if picture.mode == "P":
        picture = picture.convert("RGBA")  # straight to RGB warns about transparent palettes
    return picture.convert("RGB")


def to_array(picture: Any, *, mode: str, size: tuple[int, int], resize: bool) -> np.ndarray:
    """A picture's bytes at a given size.

    Args:
        picture: from `open_picture`.
        mode: "L" (one channel) or "RGB".
        size: (width, height) in pixels.
        resize: scale, and crop at the centre, what has another size; False: refuse it.

    Returns:
        (H, W, C) uint8; untouched pixels where the size was right already.

    Raises:
        ValueError: another size and not `resize`.
    """
    from PIL import Image, ImageOps

    if picture.size != size:
        if not resize:
            raise ValueError(f"it is {picture.size[0]}x{picture.size[1]}, not {size[0]}x{size[1]}")
        picture = ImageOps.fit(picture, size, method=Image.Resampling.BILINEAR)
    pixels = np.asarray(picture if picture.mode == mode else picture.convert(mode))
    return pixels.reshape(size[1], size[0], -1)


def size_of(stream: IO[bytes]) -> tuple[int, int]:
    """(width, height) of a picture that `open_picture` would read, by its header alone.

    Raises:
        ValueError: no picture.
    """
    from PIL import ExifTags, Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = Image.open(stream)
            turned = picture.getexif().get(ExifTags.Base.Orientation, 1) in _ON_ITS_SIDE
    except Exception as error:  # as above: Pillow raises nearly anything
        raise ValueError(f"not a whole picture ({error})") from error
    return picture.size[::-1] if turned else picture.size


_ON_ITS_SIDE = range(5, 9)  # values of EXIF's orientation that exchange width and height


def resized(images: np.ndarray, size: int) -> np.ndarray:
    """Images (b, C, H, W) uint8, 1 or 3 channels, as (b, C, size, size), as `to_array` does it."""
    from PIL import Image

    mode = "L" if images.shape[1] == 1 else "RGB"
    pictures = (Image.fromarray(image.transpose(1, 2, 0).squeeze()) for image in images)
    return channels_first(
        [to_array(picture, mode=mode, size=(size, size), resize=True) for picture in pictures]
    )


def several_sizes(what: str, sizes: Collection[tuple[int, int]]) -> DataError:
    """The error for pictures of several sizes (width, height) where one is needed."""
    shown = [f"{width}x{height}" for width, height in sorted(sizes)]
    named = ", ".join(shown) if len(shown) <= 3 else f"{shown[0]} to {shown[-1]}"
    error = DataError(
        f"{what} have {len(shown)} sizes: {named} pixels (width x height)\n"
        "  allowed: pictures of one size, or image_size, to which each is scaled and cropped\n"
        "  try: image_size: 32"
    )
    error.settings = ("dataset_path", "dataset")
    return error


def channels_first(pictures: list[np.ndarray]) -> np.ndarray:
    """(b, C, H, W) uint8 from b arrays (H, W, C)."""
    return np.ascontiguousarray(np.stack(pictures).transpose(0, 3, 1, 2))
