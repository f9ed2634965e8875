"""The features that runs of a study kept, read and checked; docs/workloads.md has their format."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FILE = "features.npz"
LARGEST = 2**29  # bytes of a file when unpacked: ten times what the built-in workload keeps
MISSING = "not there"
LARGEST_LABEL = 9_999
_ARRAYS = ("train", "train_labels", "test", "test_labels")
# What NumPy raises for a file that is cut short or was never one.
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Features:
    """Representations of one run.

    Both splits are divided by the largest number in them.

    Attributes:
        train: (N, D) float32, of the images that classifiers learn from; train_labels: (N,) whole
            numbers.
        test: (Q, D) float32, of the images that they are tested on; test_labels: (Q,).
        classes: names in the order of the labels, as many as there are labels.
        images: how many images the two splits have; fewer of them may have been kept.
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    classes: tuple[str, ...]
    images: tuple[int, int]


class Kept:
    """The kept features of a study.

    Args:
        folder: `kept` of the study's folder.
        replicates: seed -> replicate, of the table of results.

    Attributes:
        unused: (arm, condition, seed) -> why its features cannot be used, of those asked for.
    """

    def __init__(self, folder: Path, replicates: Mapping[Any, Any]) -> None:
        self._folder, self._replicates = folder / "confirm", replicates
        self.unused: dict[tuple[str, str, Any], str] = {}

    @property
    def any(self) -> bool:
        """Whether any run kept features."""
        return next(self._folder.rglob(FILE), None) is not None

    def of(self, arm: str, condition: str, seed: Any) -> Features | None:
        """The features of a run; None, with a note in `unused`, where they cannot be used."""
        try:
            return read_features(self._file(arm, condition, seed))
        except FileNotFoundError:
            why = MISSING
        except _DAMAGE as error:
            why = f"damaged ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        self.unused[arm, condition, seed] = why
        return None

    def _file(self, arm: str, condition: str, seed: Any) -> Path:
        replicate = self._replicates.get(seed)
        steps = [] if replicate is None else [_padded(replicate, 3)]
        file = self._folder.joinpath(*steps, arm, condition, _padded(seed, 4), FILE)
        if not file.resolve().is_relative_to(self._folder.resolve()):
            raise FileNotFoundError(file)  # names of a table of anyone's may lead elsewhere
        return file


def read_features(file: Path) -> Features:
    """The features in a file; images without a label are left out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something else, or is too large.
        OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error: it is damaged.
    """
    with zipfile.ZipFile(file) as packed:
        size = sum(part.file_size for part in packed.infolist())
    if size > LARGEST:
        raise ValueError(f"{size / 2**20:.0f} MiB, at most {LARGEST / 2**20:.0f} MiB are read")
    with np.load(file, allow_pickle=False) as content:
        missing = [name for name in _ARRAYS if name not in content]
        if missing:
            raise ValueError(f"it has no {' and no '.join(missing)}")
        names = [str(name) for name in content["classes"]] if "classes" in content else []
        images = content["images"].tolist() if "images" in content else []
        splits = [_split(content, name) for name in ("train", "test")]
    (train, train_labels), (test, test_labels) = splits
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"train has {train.shape[1]} numbers an image, test {test.shape[1]}")
    # Only ratios matter to what is computed here, and products of numbers up to 1 stay finite.
    largest = max(np.abs(h).max() for h in (train, test)) or 1.0
    train, test = ((h / largest).astype(np.float32) for h in (train, test))
    count = 1 + int(max(train_labels.max(), test_labels.max()))
    classes = (*names, *map(str, range(len(names), count)))
    if len(images) != 2:
        images = [len(train), len(test)]
    return Features(train, train_labels, test, test_labels, classes, tuple(images))


def _split(content: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    h, labels = content[name], content[f"{name}_labels"]
    if h.ndim != 2 or not h.shape[1] or h.dtype.kind != "f" or labels.shape != h.shape[:1]:
        raise ValueError(f"{name} is {h.dtype} {h.shape} and its labels are {labels.shape}")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{name}_labels are {labels.dtype}")
    labelled = labels >= 0
    if not labelled.any():
        raise ValueError(f"no image of {name} has a label")
    if labels.max() > LARGEST_LABEL:
        raise ValueError(f"{name} has a label {labels.max()}, {LARGEST_LABEL} is the largest read")
    if not np.isfinite(h).all():
        raise ValueError(f"{name} has numbers that are not finite")
    return h[labelled].astype(np.float64), labels[labelled].astype(np.int64)


def _padded(number: Any, digits: int) -> str:
    return f"{number:0{digits}d}" if isinstance(number, int) else str(number)
