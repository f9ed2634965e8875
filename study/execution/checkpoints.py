"""The checkpoint folder of an unfinished training: what its function saved, and its records."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from study.records import Job, Record, record_from

RECORDS = "records.jsonl"


class Checkpoint:
    """The folder that a training's function may save into, with the records that it has reported.

    A function that continues from what it saved reports only the epochs after that. The others are
    found here: the driver may not have heard of them. Nothing is written before the function asks
    for its folder.

    Args:
        job: that the folder belongs to; what another job left there is removed.
    """

    def __init__(self, job: Job) -> None:
        self.folder = Path(job.checkpoint)
        self._header = {"job": job.key, "config": job.config}
        self._open = False

    def load(self) -> list[Record]:
        """The records of an earlier process; without any, the folder is emptied."""
        try:
            lines = (self.folder / RECORDS).read_text().splitlines()
            if json.loads(lines[0]) != self._header:
                raise ValueError("another training's")
            records = [record_from(json.loads(line)) for line in _whole(lines[1:])]
        except FileNotFoundError:
            records = []
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            records = []  # an unreadable checkpoint costs its epochs, never the run
        if not records:
            self.remove()
        return records

    def begin(self, records: Sequence[Record]) -> None:
        """Keep records from now on, those so far included."""
        if not self._open:
            self._open = True
            self._write([self._header, *(record.plain() for record in records)], "w")

    def add(self, record: Record) -> None:
        """Keep one more record, if the function has asked for its folder."""
        if self._open:
            self._write([record.plain()], "a")

    def remove(self) -> None:
        """Delete the folder and all that is in it."""
        self._open = False
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, lines: Sequence[object], mode: str) -> None:
        # A full disk costs epochs if the worker dies, never the run: the driver reports it.
        with contextlib.suppress(OSError), (self.folder / RECORDS).open(mode) as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def _whole(lines: Sequence[str]) -> Sequence[str]:
    """Without a last line that a crash has torn."""
    return lines if not lines or lines[-1].endswith("}") else lines[:-1]
