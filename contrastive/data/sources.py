"""The datasets by name: where their files are looked for, and how they are downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from contrastive import catalogue
from contrastive.data import download as downloads
from contrastive.data.formats import cifar, folders, mnist, own, parquet, stl10
from contrastive.data.formats.base import Format
from contrastive.data.formats.bundled import bundled
from contrastive.data.types import DataError
from contrastive.messages import nearest


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from.

    Attributes:
        augmentation: "digits" or "natural".
        formats: the layouts that it may have on disk, looked for in this order.
        shape: (C, H, W) of its images; None where the user's files decide.
        bundled: needs no files.
        download: fetches it into a folder; None where there is nothing to fetch.
    """

    augmentation: str
    formats: tuple[Format, ...]
    shape: tuple[int, int, int] | None = None
    bundled: bool = False
    download: Callable[[Path], None] | None = None

    @property
    def side(self) -> int | None:
        """Of its images in pixels, if that is known."""
        return self.shape[1] if self.shape else None


@dataclass(frozen=True)
class Found:
    """A dataset's files and how to read them.

    Attributes:
        content: sha256 of images that come from no files but from a function of the user's.
    """

    root: Path
    format: Format
    files: list[Path] = field(default_factory=list)
    content: str = ""


DATASETS: dict[str, Source] = {
    "digits": Source("digits", (bundled(scattered=False),), (1, 8, 8), bundled=True),
    "scattered_digits": Source("digits", (bundled(scattered=True),), (1, 16, 16), bundled=True),
    "mnist": Source(
        "digits",
        (mnist.MNIST, parquet.shards(size=(28, 28), mode="L", classes=mnist.CLASSES)),
        mnist.SHAPE,
        download=downloads.mnist,
    ),
    "cifar10": Source(
        "natural",
        (cifar.CIFAR10, parquet.shards(size=(32, 32), mode="RGB", classes=cifar.CIFAR10_CLASSES)),
        cifar.SHAPE,
        download=downloads.cifar10,
    ),
    "cifar100": Source(
        "natural",
        (
            cifar.CIFAR100,
            parquet.shards(
                label_columns=("fine_label", "label"),
                size=(32, 32),
                mode="RGB",
                classes=cifar.CIFAR100_CLASSES,
            ),
        ),
        cifar.SHAPE,
        download=downloads.cifar100,
    ),
    "stl10": Source("natural", (stl10.STL10,), stl10.SHAPE, download=downloads.stl10),
    "imagefolder": Source("natural", (folders.CLASS_FOLDERS,)),
    "parquet": Source("natural", (parquet.shards(test_needed=False),)),
}


def source_of(name: str) -> Source:
    """The source called `name`.

    Raises:
        DataError: unknown; names the nearest known one.
    """
    if name in DATASETS:
        return DATASETS[name]
    names = [*DATASETS, *catalogue.published("datasets")]
    near = nearest(name, names)
    hint = f"\n  try: {near}" if near else ""
    allowed = ", ".join([*names, catalogue.OWN_FORM])
    raise DataError(f"dataset is {name!r}\n  allowed: {allowed}{hint}")


def find(name: str, path: str | Path | None, *, download: bool) -> Found:
    """Look for a dataset's files, and fetch them when they are nowhere and `download` is set.

    Args:
        name: a key of `DATASETS`, a published name, or `module:function`.
        path: the only folder to look in; None: $CONTRASTIVE_DATA/<name>, then ./data/<name>.
        download: fetch into ./data/<name> when `path` is None and nothing was found.

    Raises:
        DataError: not found, incomplete, or not to be downloaded.
    """
    if name not in DATASETS and catalogue.known("datasets", name, DATASETS):
        return _own(name, path)
    source = source_of(name)
    if source.bundled:
        if path is not None:
            raise DataError(
                f"dataset_path is {str(path)!r}, but {name} comes with scikit-learn\n"
                "  try: leave dataset_path out"
            )
        return Found(Path(), source.formats[0])
    try:
        places = [Path(path).expanduser().absolute()] if path is not None else _usual_places(name)
        found = _look(source, places)
    except (OSError, RuntimeError, ValueError) as error:  # no such user, too long, a NUL, no rights
        if isinstance(error, DataError):
            raise
        shown = "a usual place" if path is None else f"dataset_path {str(path)[:200]!a}"
        raise DataError(
            f"{shown} cannot be looked into: {getattr(error, 'strerror', None) or error}\n"
            "  allowed: a folder that this user may read\n  try: its full path, from /"
        ) from None
    if found:
        return found
    failure = "downloading is switched off"
    if path is not None:
        failure = ""
    elif source.download is None:
        failure = "there is no download: the files are your own"
    elif download:
        try:
            there = partial(_is_there, source, places)
            downloads.into(places[-1], source.download, there=there)
        except downloads.DownloadFailed as error:
            failure = f"downloading it failed: {error}"
        if found := _look(source, places):
            return found
    raise DataError(_not_found(name, source, places, failure))


def _own(name: str, path: str | Path | None) -> Found:
    if path is not None:
        raise DataError(
            f"dataset_path is {str(path)!r}, but the function {name} loads the dataset\n"
            "  try: leave dataset_path out"
        )
    layout, content = own.loaded(name, catalogue.part("datasets", name, DATASETS))
    return Found(Path(), layout, content=content)


def _usual_places(name: str) -> list[Path]:
    roots = [os.environ.get("CONTRASTIVE_DATA"), "data"]
    return [Path(root).expanduser().absolute() / name for root in roots if root]


def _look(source: Source, places: list[Path]) -> Found | None:
    for place in places:
        for layout in source.formats:
            files = layout.find(place)
            if files is not None:
                return Found(place, layout, files)
    return None


def _is_there(source: Source, places: list[Path]) -> bool:
    return _look(source, places) is not None


def _not_found(name: str, source: Source, places: list[Path], failure: str) -> str:
    looked = "\n".join(f"  looked in: {_describe(place)}" for place in places)
    ways = "\n".join(f"  allowed: {layout.hint}" for layout in source.formats)
    why = f"  and {failure}\n" if failure else ""
    return (
        f"dataset {name} is not there\n{looked}\n{why}{ways}\n"
        f"  try: put one of these into {places[-1]}, or into a folder of your choice and set "
        "dataset_path to it"
    )


def _describe(place: Path) -> str:
    if not place.exists():
        return f"{place} (no such folder)"
    return f"{place} ({'nothing usable' if place.is_dir() else 'not a folder'})"
