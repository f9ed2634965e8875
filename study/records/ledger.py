"""The ledger: what is known, durably, of every job. One small file each, written when it ends.

The tables `runs.csv` and `results.csv` are derived from these files and from the search's Optuna
storage; they can be deleted and are written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from study.records.files import write_whole
from study.records.job import Job, Outcome, Record, job_from, record_from


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
    """

    def __init__(self, folder: Path, stamp: Mapping[str, str] | None = None) -> None:
        self._folder, self._stamp = folder / "runs", dict(stamp or {})
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
        write_whole(self._file(ending.job.key), json.dumps(data))

    def read(self, key: str) -> Ending | None:
        """The ending of a job, if it has ended.

        A file that a failing disk or file system left torn counts as none: the job is run again.
        """
        try:
            data = json.loads(self._file(key).read_text())
            records = tuple(record_from(record) for record in data["records"])
            return Ending(
                job_from(data["job"]), data["outcome"], records, data["failure"],
                data.get("environment", {}), data.get("stamp", {}),
            )  # fmt: skip
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def holds(self, key: str) -> bool:
        """Whether the job has ended, by its file's name."""
        return self._file(key).exists()

    def all(self, phase: str, replicate: int | None = None) -> Iterator[Ending]:
        """The endings of a phase, by key; only those of one replicate, if given."""
        for file in sorted((self._folder / phase).rglob("*.json")):
            ending = self.read(str(file.relative_to(self._folder).with_suffix("")))
            if ending and (replicate is None or ending.job.replicate == replicate):
                yield ending

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"
