"""The way from a dataset's name to three memory-mapped splits.

Two cache entries per dataset: the source decoded once, and what one choice of split seed, limit
and imbalance takes from it. The second costs disk space, and in return every process on a
machine shares one copy of exactly the images that it trains on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.data import cache
from contrastive.data.formats.base import Chunk, Decoded, Stream, at_a_time
from contrastive.data.formats.pictures import resized
from contrastive.data.labels import refuse_unlearnable
from contrastive.data.memory import refuse_above_memory
from contrastive.data.sources import DATASETS, Found, find, source_of
from contrastive.data.splits import Choice, pick
from contrastive.data.types import DataError, Dataset, Split


def load_dataset(
    name: str,
    *,
    path: str | Path | None = None,
    split_seed: int = 0,
    train_limit: int | None = None,
    imbalance: float = 1.0,
    image_size: int | None = None,
    validation: bool = True,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Dataset:
    """A dataset's splits, memory-mapped; prepared first when the cache lacks them.

    Args:
        name: a key of `DATASETS`, a published name, or `module:function`.
        path: folder with the dataset's files; None: $CONTRASTIVE_DATA/<name>, then
            ./data/<name>, then a download into the latter.
        split_seed: >= 0; decides every split that the source does not fix, and the subsets.
        train_limit: training images to keep, stratified; None or more than there are: all.
        imbalance: in (0, 1]; class c of C keeps imbalance^(c/(C-1)) of its training images.
        image_size: side in pixels, to which every image is scaled and cropped at its centre; None:
            the images' own size.
        validation: hold out a validation split; False: its images train too.
        cache_dir: None: $CONTRASTIVE_CACHE, else ~/.cache/contrastive-study.
        download: fetch what is found nowhere.

    Returns:
        disjoint splits, the same for the same arguments and source files everywhere.

    Raises:
        DataError: unknown name, setting out of range, or files missing or damaged.
    """
    entry = _ensure(
        name,
        path,
        Choice(split_seed, train_limit, imbalance, validation),
        image_size,
        cache_dir,
        download,
        verify=False,
    )
    return load_prepared(entry)


def prepare(
    name: str,
    *,
    path: str | Path | None = None,
    split_seed: int = 0,
    train_limit: int | None = None,
    imbalance: float = 1.0,
    image_size: int | None = None,
    validation: bool = True,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Path:
    """Fill the cache, checking the sha256 of what it holds already.

    Once per study, in the driver: only here is anything downloaded or decoded. Takes and raises
    what `load_dataset` does.

    Returns:
        the cache entry's folder, absolute; `load_prepared` opens it without the source's files.
    """
    return _ensure(
        name,
        path,
        Choice(split_seed, train_limit, imbalance, validation),
        image_size,
        cache_dir,
        download,
        verify=True,
    )


def load_prepared(entry: str | Path) -> Dataset:
    """Memory-map what `prepare` returned; touches neither the source nor the working directory.

    Raises:
        DataError: the entry is missing or damaged.
    """
    import torch  # not above: preparing, all that a study's driver does, needs no PyTorch

    entry = Path(entry)
    if not cache.is_intact(entry):
        raise DataError(f"{entry} is no intact cache entry\n  try: prepare the dataset again")
    about = cache.read_meta(entry)
    splits = {
        split: Split(
            torch.from_numpy(cache.open_array(entry, f"{split}_images")),
            torch.from_numpy(cache.open_array(entry, f"{split}_labels")),
        )
        for split in ("train", "val", "test")
        if f"{split}_images.npy" in about["files"]
    }
    return Dataset(
        about["name"],
        splits["train"],
        splits.get("val"),
        splits["test"],
        tuple(about["classes"]),
        about["augmentation"],
    )


def train_images(entry: str | Path) -> int:
    """Images in the training split of what `prepare` returned."""
    return cache.read_meta(Path(entry))["files"]["train_images.npy"]["shape"][0]


def train_labels(entry: str | Path) -> np.ndarray:
    """(N,) labels of the training images of what `prepare` returned; -1 means unlabelled."""
    return cache.open_array(Path(entry), "train_labels")


def image_shape(entry: str | Path) -> tuple[int, int, int]:
    """(C, H, W) of the images of what `prepare` returned."""
    return tuple(cache.read_meta(Path(entry))["files"]["train_images.npy"]["shape"][1:])


def _ensure(
    name: str,
    path: str | Path | None,
    choice: Choice,
    image_size: int | None,
    cache_dir: str | Path | None,
    download: bool,
    *,
    verify: bool,
) -> Path:
    found = find(name, path, download=download)
    home = cache.root(cache_dir)
    size = None if name in DATASETS and DATASETS[name].side == image_size else image_size
    key = f"{name.replace(':', '.')}-{_fingerprint(found)}" + (f"-{size}px" if size else "")
    entry = home / f"{key}-{choice.slug}"
    if cache.is_intact(entry, verify=verify):
        return entry
    decoded = cache.build(
        home / key, lambda folder: _write_source(folder, name, found, size), verify=True
    )
    return cache.build(entry, lambda folder: _write_choice(folder, decoded, choice), verify=verify)


def _fingerprint(found: Found) -> str:
    """Changes whenever the source's files do; the folder counts too, since MNIST and its
    look-alikes share names and sizes, and archives can give them one time."""
    stats = [(file, file.stat()) for file in found.files]
    if found.content:
        return found.content[:12]
    facts = [
        cache.FORMAT_VERSION,
        str(found.root),
        [(str(f.relative_to(found.root)), s.st_size, s.st_mtime_ns) for f, s in stats],
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]


def _write_source(folder: Path, name: str, found: Found, size: int | None) -> dict[str, Any]:
    """Decode every split that the source has, at a size of its images or their own."""
    try:
        decoded = found.format.decode(found.root, found.files, size)
        splits = _named_as_ours(decoded)
        images = sum(stream.count for stream in splits.values())
        shape = (decoded.shape[0], size, size) if size else decoded.shape
        refuse_above_memory(f"the {images:,} images of {name}", images, shape)
        for split, stream in splits.items():
            as_wanted = stream if decoded.shape == shape else _resized(stream, shape[1])
            cache.write_stream(folder, split, as_wanted)
    except OSError as error:
        if error.filename and Path(error.filename) in found.files:  # not the cache's fault
            raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error
        raise
    labels = {split: np.load(folder / f"{split}_labels.npy") for split in splits}
    refuse_unlearnable(name, decoded.classes, labels)
    return {
        "name": name,
        "classes": decoded.classes,
        "augmentation": decoded.augmentation or source_of(name).augmentation,
        "splits": list(splits),
    }


def _named_as_ours(decoded: Decoded) -> dict[str, Stream]:
    """A source whose only held-out split is called validation (ImageNet's) has it as its test."""
    splits = dict(decoded.splits)
    if "val" in splits and "test" not in splits:
        splits["test"] = splits.pop("val")
    if "unlabelled" in splits:
        first, second = splits["train"], splits.pop("unlabelled")
        splits["train"] = Stream(first.count + second.count, _joined(first, second))
    return splits


def _joined(*streams: Stream) -> Any:
    for stream in streams:
        yield from stream.chunks


def _resized(stream: Stream, size: int) -> Stream:
    def chunks() -> Iterator[Chunk]:
        for images, labels in stream.chunks:
            step = at_a_time((images.shape[1], size, size))
            for start in range(0, len(images), step):
                part = slice(start, start + step)
                yield resized(images[part], size), labels[part]

    return Stream(stream.count, chunks())


def _write_choice(folder: Path, source: Path, choice: Choice) -> dict[str, Any]:
    """Copy the picked training images; splits that are used whole are linked."""
    about = cache.read_meta(source)
    images, labels = (cache.open_array(source, f"train_{part}") for part in ("images", "labels"))
    picks = pick(
        np.asarray(labels),
        choice,
        classes=len(about["classes"]),
        has_val="val" in about["splits"],
        has_test="test" in about["splits"],
    )
    for split, positions in (("train", picks.train), ("val", picks.val), ("test", picks.test)):
        if positions is None:
            for part in ("images", "labels"):
                name = f"{split}_{part}.npy"
                cache.share(source / name, folder / name)
        elif split != "val" or choice.validation:
            cache.write_stream(folder, split, _picked(images, labels, positions))
    return {**{key: about[key] for key in ("name", "classes", "augmentation")}, **_facts(choice)}


def _picked(images: np.ndarray, labels: np.ndarray, positions: np.ndarray) -> Stream:
    step = at_a_time(images.shape[1:])
    parts = (positions[i : i + step] for i in range(0, len(positions), step))
    return Stream(len(positions), ((images[part], labels[part]) for part in parts))


def _facts(choice: Choice) -> dict[str, Any]:
    return {
        "split_seed": choice.split_seed,
        "train_limit": choice.train_limit,
        "imbalance": choice.imbalance,
        "validation": choice.validation,
    }
