"""The reader of CIFAR's pickled batches, torchvision's layout.

Not through torchvision's own classes: they refuse every folder but the published one, so that
neither a subset nor a test's small files can be read, and they unpickle without restrictions.
"""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.data.formats.base import (
    Decoded,
    Format,
    check_published,
    complete,
    damaged,
    whole,
)

SHAPE = (3, 32, 32)
CIFAR10_CLASSES = tuple(
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
)
CIFAR100_CLASSES = tuple(f"class {c}" for c in range(100))  # where the meta file is missing

# file -> published (images, md5), as in torchvision.datasets.CIFAR10 and CIFAR100
CIFAR10_FILES = {
    "data_batch_1": (10_000, "c99cafc152244af753f735de768cd75f"),
    "data_batch_2": (10_000, "d4bba439e000b95fd0a9bffe97cbabec"),
    "data_batch_3": (10_000, "54ebc095f3ab1f0389bbae665268c751"),
    "data_batch_4": (10_000, "634d18415352ddfa80567beed471001a"),
    "data_batch_5": (10_000, "482c414d41f54cd18b22e5b47cb7c3cb"),
    "test_batch": (10_000, "40351d587109b95175f43aff81a1287e"),
}
CIFAR100_FILES = {
    "train": (50_000, "16019d7e3df5f24257cddd939b257f8d"),
    "test": (10_000, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
}


class _ArraysOnly(pickle.Unpickler):
    """Unpickles what CIFAR's files hold; anything else in a pickle could run code."""

    allowed = frozenset(
        {
            ("_codecs", "encode"),
            ("numpy", "dtype"),
            ("numpy", "ndarray"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy.core.numeric", "_frombuffer"),
            ("numpy._core.numeric", "_frombuffer"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def _unpickle(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            content = _ArraysOnly(stream, encoding="latin1").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise damaged(file, f"not a whole CIFAR pickle ({error})") from error
    if not isinstance(content, dict):
        raise damaged(file, "not a dictionary")
    return content


def _read_batch(file: Path, label_key: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    batch = _unpickle(file)
    try:
        pixels, labels = batch.get("data"), np.asarray(batch.get(label_key, []))
    except ValueError as error:  # lists of different lengths
        raise damaged(file, f"'{label_key}' is not one whole number per image") from error
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2:
        raise damaged(file, "'data' is not a 2-d array of bytes")
    if pixels.shape[1] != 3 * 32 * 32 or len(pixels) == 0:
        raise damaged(file, f"'data' has shape {pixels.shape}, not (N, 3072)")
    if labels.shape != (len(pixels),) or not np.issubdtype(labels.dtype, np.integer):
        raise damaged(file, f"'{label_key}' is not one whole number per image ({len(pixels)})")
    if labels.min() < 0 or labels.max() >= classes:
        raise damaged(file, f"'{label_key}' is not within 0-{classes - 1}")
    return pixels.reshape(-1, *SHAPE), labels


def _class_names(file: Path, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """The names in the meta file; `default` when there is none."""
    if not file.is_file():
        return default
    found = _unpickle(file).get(key, ())
    names = tuple(str(name) for name in found) if isinstance(found, list | tuple) else ()
    if len(names) != len(default):
        raise damaged(file, f"it names {len(names)} classes, not {len(default)}")
    return names


def _find(root: Path, *, base: str, published: dict[str, tuple[int, str]]) -> list[Path] | None:
    for folder in (root / base, root):
        if folder is root and root.name != base:
            continue  # CIFAR-100's "train" and "test" are names that many folders have
        if files := complete(folder, list(published), what=f"a folder {base}"):
            return files
    return None


def _decode(
    root: Path,
    files: list[Path],
    size: int | None,
    *,
    published: dict[str, tuple[int, str]],
    meta: tuple[str, str],
    label_key: str,
    default_classes: tuple[str, ...],
) -> Decoded:
    classes = _class_names(files[0].parent / meta[0], meta[1], default_classes)
    batches = []
    for file in files:
        images, labels = _read_batch(file, label_key, len(classes))
        count, md5 = published[file.name]
        if len(images) == count:
            check_published(file, md5)
        batches.append((images, labels))
    train = [np.concatenate(part) for part in zip(*batches[:-1], strict=True)]
    splits = {"train": whole(*train), "test": whole(*batches[-1])}
    return Decoded(classes, SHAPE, splits)


def _batches(
    base: str,
    published: dict[str, tuple[int, str]],
    meta: tuple[str, str],
    label_key: str,
    default_classes: tuple[str, ...],
) -> Format:
    return Format(
        hint=f"torchvision's layout: a folder {base} with {', '.join(published)}",
        find=partial(_find, base=base, published=published),
        decode=partial(
            _decode,
            published=published,
            meta=meta,
            label_key=label_key,
            default_classes=default_classes,
        ),
    )


CIFAR10 = _batches(
    "cifar-10-batches-py",
    CIFAR10_FILES,
    ("batches.meta", "label_names"),
    "labels",
    CIFAR10_CLASSES,
)
CIFAR100 = _batches(
    "cifar-100-python",
    CIFAR100_FILES,
    ("meta", "fine_label_names"),
    "fine_labels",
    CIFAR100_CLASSES,
)
