"""The ledger: what is known, durably, of every job. One small file each, written when it ends.

The tables `runs.csv` and `results.csv` are derived from these files and from the search's Optuna
storage; they can be deleted and are written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from study.errors import StudyError
from study.records.files import digest, write_whole
from study.records.job import Job, Outcome, Record, job_from, record_from

_CHECKSUM = "sha256"  # of all the rest; records of earlier versions have none
_OUTCOMES = ("finished", "stopped", "diverged", "failed")
_MOST_NAMED = 5


@dataclass(frozen=True)
class Ending:
    """A job that ended: its records, how and why it ended.

    `environment` is where it ran, `stamp` what its ledger knew then.
    """

    job: Job
    outcome: Outcome
    records: tuple[Record, ...]
    failure: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, compare=False)
    stamp: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def epochs(self) -> int:
        """Epochs trained."""
        return self.records[-1].epoch if self.records else 0

    @property
    def seconds(self) -> float:
        """Device-seconds of training and evaluation."""
        return self.records[-1].metrics.get("seconds", 0.0) if self.records else 0.0

    @property
    def test_reads(self) -> int:
        """How often the test split was read: by a confirmation run, once, after its last epoch."""
        return sum(any(m.startswith("test/") for m in r.metrics) for r in self.records)

    def last(self, metric: str) -> float | None:
        """The metric at the last epoch that has it."""
        values = [r.metrics[metric] for r in self.records if metric in r.metrics]
        return values[-1] if values else None


class Ledger:
    """The endings of a study, in `folder/runs/<phase>/<arm>/…json`.

    Args:
        folder: of the study.
        stamp: written into every ending: under which design it ran, say.
        forgiving: pass over files that were changed, for whoever names them by `changed`; else
            reading one is an error, as the run would be trained again or counted as it stands.
    """

    def __init__(
        self, folder: Path, stamp: Mapping[str, str] | None = None, *, forgiving: bool = False
    ) -> None:
        self._folder, self._stamp, self._forgiving = folder / "runs", dict(stamp or {}), forgiving
        self.design = self._stamp.get("design", "")

    def write(self, ending: Ending) -> None:
        """Keep an ending; whole or not at all."""
        data = {
            "job": ending.job.plain(),
            "outcome": ending.outcome,
            "failure": ending.failure,
            "environment": dict(ending.environment),
            "stamp": self._stamp,
            "records": [record.plain() for record in ending.records],
        }
        plain = json.loads(json.dumps(data))  # as it will be read: keys are text, tuples lists
        write_whole(self._file(ending.job.key), json.dumps(plain | {_CHECKSUM: digest(plain)}))

    def read(self, key: str) -> Ending | None:
        """The ending of a job, if it has ended.

        A file that a failing disk or file system left torn counts as none: the job is run again.
        One that is whole and does not fit its checksum was changed.

        Raises:
            StudyError: the file was changed, and the ledger is not forgiving.
        """
        data = _parsed(self._file(key))
        if data is None:
            return None
        if not _fits(data):
            if self._forgiving:
                return None
            raise _changed_error([self._file(key)])
        return _ending(data)

    def holds(self, key: str) -> bool:
        """Whether the job has ended, by its file's name."""
        return self._file(key).exists()

    def all(self, phase: str, replicate: int | None = None) -> Iterator[Ending]:
        """The endings of a phase, by key; only those of one replicate, if given."""
        for file in sorted((self._folder / phase).rglob("*.json")):
            ending = self.read(str(file.relative_to(self._folder).with_suffix("")))
            if ending and (replicate is None or ending.job.replicate == replicate):
                yield ending

    def changed(self) -> list[Path]:
        """The files that were changed after their run had ended."""
        files = sorted(self._folder.rglob("*.json"))
        return [file for file in files if (data := _parsed(file)) is not None and not _fits(data)]

    def refuse_changed(self) -> None:
        """Raises StudyError, which names the files that were changed, if there are any."""
        if files := self.changed():
            raise _changed_error(files)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _parsed(file: Path) -> dict[str, Any] | None:
    """What a file holds; None of one that is missing or torn."""
    try:
        data = json.loads(file.read_text())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _fits(data: Mapping[str, Any]) -> bool:
    rest = {key: value for key, value in data.items() if key != _CHECKSUM}
    return _CHECKSUM not in data or data[_CHECKSUM] == digest(rest)


def _ending(data: Mapping[str, Any]) -> Ending | None:
    """The ending in a file's data; None where the data have another shape."""
    try:
        job, records = job_from(data["job"]), tuple(map(record_from, data["records"]))
        about = {"environment": data.get("environment", {}), "stamp": data.get("stamp", {})}
        if data["outcome"] not in _OUTCOMES or not all(isinstance(a, dict) for a in about.values()):
            return None
        return Ending(job, data["outcome"], records, str(data["failure"]), **about)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _changed_error(files: list[Path]) -> StudyError:
    named = [str(file) for file in files[:_MOST_NAMED]]
    named += [f"and {len(files) - _MOST_NAMED} more"] * (len(files) > _MOST_NAMED)
    several = len(files) > 1
    return StudyError(
        "\n".join(named) + f": {'were' if several else 'was'} changed after the run had ended; the "
        "checksum does not fit\n"
        f"  try: restore {'the files' if several else 'the file'}, or delete "
        f"{'them' if several else 'it'} and continue with --resume, which trains again"
    )
