"""Files that are written as a whole or not at all, and digests of plain data."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_table(file: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A CSV file, whole or not at all."""
    scratch = file.with_name(file.name + ".part")
    with scratch.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    os.replace(scratch, file)


def write_whole(file: Path, text: str) -> None:
    """A text file, whole or not at all, after a crash too."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(file.name + ".part")
    with scratch.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(scratch, file)


def digest(data: Any) -> str:
    """sha256 of plain data, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
