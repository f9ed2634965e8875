"""The reader of a folder of class folders.

Either class folders directly, or split folders `train`, `val` and `test` with class folders in
each. Pictures become RGB, of their own size if they have one in common; to any other they are
scaled, then cropped at the centre.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from contrastive.data.formats.base import (
    Chunk,
    Decoded,
    Format,
    Stream,
    at_a_time,
    damaged,
)
from contrastive.data.formats.pictures import (
    channels_first,
    open_picture,
    several_sizes,
    size_of,
    to_array,
)
from contrastive.data.types import DataError

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
SPLIT_FOLDERS = {"train": ("train",), "val": ("val", "valid", "validation"), "test": ("test",)}


def _folders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _split_folders(root: Path) -> dict[str, Path]:
    """{"train": root} where the classes lie in the root itself."""
    found = {
        split: root / name
        for split, names in SPLIT_FOLDERS.items()
        for name in names
        if (root / name).is_dir()
    }
    return found if "train" in found and _folders(found["train"]) else {"train": root}


def _pictures(folder: Path) -> list[Path]:
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()
    )


def _find(root: Path) -> list[Path] | None:
    if not root.is_dir():
        return None
    files: list[Path] = []
    for folder in _split_folders(root).values():
        for class_folder in _folders(folder):
            pictures = _pictures(class_folder)
            if not pictures:
                raise DataError(
                    f"{class_folder} holds no pictures\n"
                    f"  allowed: {', '.join(sorted(SUFFIXES))}\n  try: delete the empty folder"
                )
            files += pictures
    return files or None


def _common_size(root: Path, files: list[Path]) -> tuple[int, int]:
    """(width, height) of every picture, by their headers.

    Raises:
        DataError: they have several.
    """
    sizes = set()
    for file in files:
        try:
            with file.open("rb") as stream:
                sizes.add(size_of(stream))
        except (OSError, ValueError) as error:
            raise damaged(file, str(error)) from error
    if len(sizes) > 1:
        raise several_sizes(f"the pictures of {root}", sizes)
    return sizes.pop()


def _chunks(files: list[Path], labels: np.ndarray, size: tuple[int, int]) -> Iterator[Chunk]:
    step = at_a_time((3, *size))
    for start in range(0, len(files), step):
        part = slice(start, start + step)
        yield channels_first([_read(file, size) for file in files[part]]), labels[part]


def _read(file: Path, size: tuple[int, int]) -> np.ndarray:
    try:
        with file.open("rb") as stream:
            picture = open_picture(stream)
        return to_array(picture, mode="RGB", size=size, resize=True)
    except (OSError, ValueError) as error:
        raise damaged(file, str(error)) from error


def _decode(root: Path, files: list[Path], size: int | None) -> Decoded:
    width, height = (size, size) if size else _common_size(root, files)
    places = _split_folders(root)
    classes = [folder.name for folder in _folders(places["train"])]
    number = {name: c for c, name in enumerate(classes)}
    splits = {}
    for split, place in places.items():
        mine = [file for file in files if file.is_relative_to(place)]
        names = [file.relative_to(place).parts[0] for file in mine]
        if unknown := sorted(set(names) - set(classes)):
            raise DataError(
                f"{place} has classes that {places['train']} has not: {', '.join(unknown)}\n"
                f"  allowed: {', '.join(classes)}\n  try: the same class folders in every split"
            )
        numbers = np.array([number[name] for name in names], dtype=np.int64)
        splits[split] = Stream(len(mine), _chunks(mine, numbers, (width, height)))
    return Decoded(tuple(classes), (3, height, width), splits)


CLASS_FOLDERS = Format(
    hint="one folder of pictures per class, or such folders within train/, val/ and test/",
    find=_find,
    decode=_decode,
)
