"""The cache of decoded datasets, of which any number of processes share one copy.

A cache entry is a folder of .npy files and a meta.json with their sizes, shapes and sha256. It is
written under another name and renamed when it is whole; readers memory-map it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

from contrastive.data.formats.base import Stream
from contrastive.data.types import DataError

FORMAT_VERSION = 2  # raise it when the arrays or their meaning change: old entries are left alone
META = "meta.json"


def root(cache_dir: str | Path | None) -> Path:
    """The folder of all entries: the argument, else $CONTRASTIVE_CACHE, else the user's own."""
    chosen = cache_dir or os.environ.get("CONTRASTIVE_CACHE")
    folder = Path(chosen) if chosen else user_cache_path("contrastive-study", appauthor=False)
    try:
        return folder.expanduser().absolute()
    except RuntimeError:
        raise DataError(
            f"the cache {folder} is in the home folder of a user who does not exist\n"
            "  allowed: a folder that can be written\n"
            "  try: set CONTRASTIVE_CACHE to another folder"
        ) from None


def is_intact(entry: Path, *, verify: bool = False) -> bool:
    """Whether an entry is whole: sizes and headers, and with `verify` every sha256."""
    try:
        files = read_meta(entry)["files"]
        return all(_file_is_intact(entry / name, facts, verify) for name, facts in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def read_meta(entry: Path) -> dict[str, Any]:
    """What was written about an entry: {"files": {...}, **about}.

    Raises:
        OSError, ValueError: missing or unreadable.
    """
    return json.loads((entry / META).read_text(encoding="utf-8"))


def open_array(entry: Path, name: str) -> np.ndarray:
    """One array of an entry, memory-mapped.

    Copy on write ("c") shares the page cache just as "r" does, but gives torch the writable
    array that it asks for: with "r" it warns, and a stray in-place operation ends the process.
    """
    return np.load(entry / f"{name}.npy", mmap_mode="c")


def build(entry: Path, fill: Callable[[Path], dict[str, Any]], *, verify: bool) -> Path:
    """Return the entry, filled by `fill` unless it is there and intact.

    Processes that ask at once wait for the first one. A file lock serves where the file system
    has them; where not, both fill their own copy and the first rename wins.

    Args:
        entry: the entry's folder.
        fill: writes .npy files into the folder that it is given and returns what else meta.json
            is to say.
        verify: check an existing entry's sha256, not only its sizes.

    Raises:
        DataError: the folder cannot be written, or whatever `fill` raises.
    """
    from filelock import FileLock

    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(entry.parent / f".{entry.name}.lock"):
            if not is_intact(entry, verify=verify):
                _replace(entry, fill)
    except OSError as error:
        raise DataError(
            f"the cache {entry.parent} cannot be written: {error}\n"
            "  allowed: a folder with room for the decoded images (CIFAR-10: 400 MB)\n"
            "  try: set CONTRASTIVE_CACHE to another folder"
        ) from error
    return entry


def write_stream(folder: Path, name: str, stream: Stream) -> None:
    """Write one split as `<name>_images.npy` and `<name>_labels.npy`, a chunk at a time.

    Raises:
        DataError: the stream's length is not what it promised.
    """
    if stream.count == 0:
        raise DataError(f"the {name} split holds no images")
    labels = np.full(stream.count, -1, dtype=np.int64)
    images, done = None, 0
    for pixels, numbers in stream.chunks:
        if images is None:
            shape = (stream.count, *pixels.shape[1:])
            target = folder / f"{name}_images.npy"
            images = np.lib.format.open_memmap(target, mode="w+", dtype=np.uint8, shape=shape)
        images[done : done + len(pixels)] = pixels
        labels[done : done + len(pixels)] = numbers
        done += len(pixels)
    if images is None or done != stream.count:
        raise DataError(f"the {name} split holds {done} images, not {stream.count} as announced")
    images.flush()
    np.save(folder / f"{name}_labels.npy", labels)


def share(source: Path, target: Path) -> None:
    """Give a file a second name, as a hard link where the file system can, else as a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _file_is_intact(file: Path, facts: dict[str, Any], verify: bool) -> bool:
    if file.stat().st_size != facts["bytes"]:
        return False
    array = np.load(file, mmap_mode="r")  # reads the header only
    if list(array.shape) != facts["shape"] or str(array.dtype) != facts["dtype"]:
        return False
    return not verify or _sha256(file) == facts["sha256"]


def _replace(entry: Path, fill: Callable[[Path], dict[str, Any]]) -> None:
    """Fill a new folder and rename it to `entry`; called with the entry's lock held."""
    prefix = f".building-{entry.name}."
    for left_behind in entry.parent.glob(f"{prefix}*"):  # by a process that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    workplace = Path(tempfile.mkdtemp(prefix=prefix, dir=entry.parent))
    try:
        new = workplace / "new"
        new.mkdir()
        about = fill(new)
        files = {file.name: _facts(file) for file in sorted(new.glob("*.npy"))}
        meta = json.dumps({"version": FORMAT_VERSION, **about, "files": files}, indent=1)
        (new / META).write_text(meta, encoding="utf-8")
        if entry.exists():  # a damaged one; maps that are open on it stay valid
            os.replace(entry, workplace / "old")
        try:
            os.replace(new, entry)
        except OSError:
            if not is_intact(entry):  # without working locks another process may have won
                raise
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _facts(file: Path) -> dict[str, Any]:
    array = np.load(file, mmap_mode="r")
    return {
        "bytes": file.stat().st_size,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "sha256": _sha256(file),
    }


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
