"""The reader of Parquet shards in the Hugging Face image layout.

Columns `img` or `image` (struct of `bytes` and `path`, or plain bytes) and `label`; files
`train-*.parquet`, `test-*.parquet` and perhaps `validation-*.parquet` in the dataset's folder
or one level below it. Pixels come out as encoded: PNG and lossless WebP round-trip exactly.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contrastive.data.formats.base import (
    Chunk,
    Decoded,
    Format,
    Stream,
    at_a_time,
    check_labels,
    damaged,
)
from contrastive.data.formats.pictures import (
    channels_first,
    open_picture,
    several_sizes,
    to_array,
)
from contrastive.data.types import DataError

IMAGE_COLUMNS = ("img", "image")
PREFIXES = {"train": ("train",), "val": ("validation", "valid", "val"), "test": ("test",)}


@dataclass(frozen=True)
class _Layout:
    """What one dataset's shards look like; None where the first picture decides."""

    label_columns: tuple[str, ...] = ("label",)
    size: tuple[int, int] | None = None
    mode: str | None = None
    classes: tuple[str, ...] | None = None
    test_needed: bool = True


def _split_of(file: Path) -> str | None:
    """ "train" for train.parquet and train-00000-of-00002.parquet; None for other names."""
    stem = re.sub(r"-.*", "", file.stem)
    return next((split for split, names in PREFIXES.items() if stem in names), None)


def _check_all_shards(files: list[Path]) -> None:
    for file in files:
        if match := re.fullmatch(r"(.+)-(\d+)-of-(\d+)", file.stem):
            stem, width, total = match[1], len(match[2]), match[3]
            for i in range(int(total)):
                sibling = file.with_name(f"{stem}-{i:0{width}}-of-{total}.parquet")
                if not sibling.is_file():
                    raise DataError(f"{sibling} is missing\n  try: fetch it beside {file.name}")


def _find(root: Path, *, layout: _Layout) -> list[Path] | None:
    if not root.is_dir():
        return None
    below = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    for folder in (root, *below):
        files = [file for file in sorted(folder.glob("*.parquet")) if _split_of(file)]
        splits = {_split_of(file) for file in files}
        if "train" not in splits:
            continue
        _check_all_shards(files)
        if layout.test_needed and "test" not in splits:
            raise DataError(
                f"{folder} has train shards but no test shards\n"
                "  allowed: train-*.parquet beside test-*.parquet\n  try: fetch the test shards too"
            )
        return files
    return None


def _open(file: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, f"not a whole Parquet file ({error})") from error


def _column(file: Path, names: list[str], wanted: tuple[str, ...]) -> str:
    for name in wanted:
        if name in names:
            return name
    raise DataError(
        f"{file} has no column {' or '.join(wanted)}; it has {', '.join(names)}\n"
        "  allowed: img|image {bytes, path} and label, as on the Hugging Face hub\n"
        "  try: rename the column"
    )


def _label_column(file: Path, schema: Any, layout: _Layout) -> str:
    import pyarrow as pa

    name = _column(file, schema.names, layout.label_columns)
    kind = schema.field(name).type
    if not pa.types.is_integer(kind):
        raise DataError(
            f"{file}: column {name} holds {kind}\n"
            "  allowed: whole numbers from 0, and -1 for unlabelled training images\n"
            "  try: encode the classes as numbers"
        )
    return name


def _rows(
    file: Path, layout: _Layout, count: int
) -> Iterator[tuple[list[bytes | None], np.ndarray]]:
    """Encoded pictures and labels, at most `count` rows at a time."""
    import pyarrow as pa

    shard = _open(file)
    image = _column(file, shard.schema_arrow.names, IMAGE_COLUMNS)
    label = _label_column(file, shard.schema_arrow, layout)
    try:
        for batch in shard.iter_batches(count, columns=[image, label]):
            pictures = batch.column(image)
            if pa.types.is_struct(pictures.type):
                pictures = pictures.field("bytes")
            labels = batch.column(label).cast(pa.int64()).fill_null(-1)
            yield pictures.to_pylist(), labels.to_numpy(zero_copy_only=False)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise damaged(file, f"unreadable rows ({error})") from error


def _first_picture(file: Path, layout: _Layout) -> Any:
    encoded, _ = next(_rows(file, layout, 1), ([None], None))
    try:
        return open_picture(io.BytesIO(encoded[0] or b""))
    except ValueError as error:
        raise damaged(file, f"row 0: {error}") from error


class _Look(NamedTuple):
    """What every picture is brought to.

    Attributes:
        size: (width, height).
        mode: "L" or "RGB".
        resize: scale and crop pictures of another size, instead of refusing them.
        first: the size is the first picture's.
    """

    size: tuple[int, int]
    mode: str
    resize: bool = False
    first: bool = False


def _common_look(file: Path, layout: _Layout, size: int | None) -> _Look:
    """The layout's own; else as wanted; else the first picture's."""
    if layout.size and layout.mode:
        return _Look(layout.size, layout.mode)
    first = _first_picture(file, layout)
    if size:
        return _Look((size, size), first.mode, resize=True)
    return _Look(first.size, first.mode, first=True)


def _names(file: Path, layout: _Layout) -> tuple[str, ...]:
    """Class names from the hub's schema metadata; () when there are none."""
    schema = _open(file).schema_arrow
    label = _label_column(file, schema, layout)
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return tuple(str(name) for name in features[label]["names"])
    except (KeyError, TypeError, ValueError):
        return ()


def _largest_label(file: Path, layout: _Layout) -> int:
    import pyarrow as pa
    from pyarrow import compute

    shard = _open(file)
    label = _label_column(file, shard.schema_arrow, layout)
    try:
        largest = compute.max(shard.read([label]).column(0)).as_py()
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, f"unreadable labels ({error})") from error
    return -1 if largest is None else largest


def _chunks(
    files: list[Path],
    layout: _Layout,
    look: _Look,
    classes: int,
) -> Iterator[Chunk]:
    count = at_a_time((3, *look.size))
    for file in files:
        row = 0
        for encoded, labels in _rows(file, layout, count):
            arrays = []
            for picture in encoded:
                arrays.append(_array(picture, f"row {row}", file, look))
                row += 1
            if labels.min() < -1 or labels.max() >= classes:
                raise damaged(file, f"a label is not within 0-{classes - 1} (or -1, unlabelled)")
            yield channels_first(arrays), labels


def _array(picture: bytes | None, row: str, file: Path, look: _Look) -> np.ndarray:
    try:
        opened = open_picture(io.BytesIO(picture or b""))
        if look.first and opened.size != look.size:
            what = f"{row} of {file} and the first picture"
        else:
            return to_array(opened, mode=look.mode, size=look.size, resize=look.resize)
    except ValueError as error:
        raise damaged(file, f"{row}: {error}") from error
    raise several_sizes(what, {opened.size, look.size})


def _decode(root: Path, files: list[Path], size: int | None, *, layout: _Layout) -> Decoded:
    shards = {split: [f for f in files if _split_of(f) == split] for split in PREFIXES}
    train = shards["train"]
    classes = _names(train[0], layout) or layout.classes
    if not classes:
        largest = max(_largest_label(f, layout) for f in train)
        check_labels(train[0], largest, sum(_open(f).metadata.num_rows for f in train))
        classes = tuple(str(c) for c in range(largest + 1))
    look = _common_look(train[0], layout, size)
    return Decoded(
        classes,
        (1 if look.mode == "L" else 3, *reversed(look.size)),
        {
            split: Stream(
                sum(_open(file).metadata.num_rows for file in part),
                _chunks(part, layout, look, len(classes)),
            )
            for split, part in shards.items()
            if part
        },
    )


def shards(
    *,
    label_columns: tuple[str, ...] = ("label",),
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    classes: tuple[str, ...] | None = None,
    test_needed: bool = True,
) -> Format:
    """Parquet shards as a format.

    Args:
        label_columns: accepted names of the label column, the preferred one first.
        size: (width, height) that every picture must have; None: the first picture's.
        mode: "L" or "RGB"; None: the first picture's.
        classes: names when the files carry none.
        test_needed: refuse a folder without test shards.
    """
    layout = _Layout(label_columns, size, mode, classes, test_needed)
    return Format(
        hint="Parquet shards: train-*.parquet and test-*.parquet with columns "
        f"img|image {{bytes, path}} and {label_columns[0]}",
        find=partial(_find, layout=layout),
        decode=partial(_decode, layout=layout),
    )
