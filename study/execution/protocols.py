"""The contract between the phases, which decide what runs next, and what executes their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from study.records import Ending, Job, Record


class Source(Protocol):
    """A phase, seen from what executes it. All calls come from one thread of the driver."""

    def remaining(self) -> int:
        """Jobs that `next` will still hand out."""

    def next(self) -> Job | None:
        """A job to start now, or None while others must end first."""

    def on_records(self, job: Job, records: Sequence[Record]) -> bool:
        """New epochs of a job, each once and in order; True stops the job."""

    def on_end(self, ending: Ending) -> None:
        """The job has ended."""


class Monitor(Protocol):
    """Whoever wants to know what happens: the display, MLflow."""

    def on_start(self, job: Job) -> None:
        """The job was handed to a worker."""

    def on_records(self, job: Job, records: Sequence[Record]) -> None:
        """New epochs of a job."""

    def on_end(self, ending: Ending) -> None:
        """The job has ended."""
