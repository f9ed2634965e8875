"""Files that are written as a whole or not at all, and digests of plain data."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO


def write_table(file: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A CSV file, whole or not at all, after a crash too."""
    with _replacing(file) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def write_whole(file: Path, text: str) -> None:
    """A text file, whole or not at all, after a crash too."""
    with _replacing(file) as out:
        out.write(text)


@contextlib.contextmanager
def _replacing(file: Path) -> Iterator[TextIO]:
    """A scratch file that takes the place of `file` once it is complete and on the disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(file.name + ".part")
    with scratch.open("w", newline="") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
    os.replace(scratch, file)


def digest(data: Any) -> str:
    """sha256 of plain data, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
