"""What is one training of a study, and how did it end?"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from contrastive.config import TrainConfig, settings
from study.data import prepared
from study.design.length import planned_epochs

Phase = Literal["search", "recheck", "confirm"]
Outcome = Literal["finished", "stopped", "diverged", "failed"]


@dataclass(frozen=True)
class Job:
    """One training to be run: a trial of the search or a run of the confirmation.

    Attributes:
        phase: which part of the study it belongs to; a recheck trains a good trial again.
        arm, condition, seed: where in the design.
        number: of the trial within its arm; None for a confirmation run.
        config: all settings of TrainConfig.
        drawn: those of them that the search chose.
        decide_at: epochs after which the driver may stop it.
        folder: of the study.
        data: folder of the prepared dataset.
        gpus: its own share of GPUs; None: the study's.
        retried: why it runs a second time, or "".
        planned: its epochs where `config` alone does not tell: with a budget of views.
    """

    phase: Phase
    arm: str
    condition: str
    seed: int
    number: int | None
    config: dict[str, Any]
    folder: str
    data: str
    drawn: dict[str, Any] = field(default_factory=dict)
    decide_at: tuple[int, ...] = ()
    gpus: float | None = None
    retried: str = ""
    planned: int | None = None

    @property
    def key(self) -> str:
        """Its name within the study, also its path in the study's folder."""
        if self.phase == "search":
            return f"search/{self.arm}/{self.number:04d}"
        if self.phase == "recheck":
            return f"recheck/{self.arm}/{self.number:04d}/{self.seed:04d}"
        return f"confirm/{self.arm}/{self.condition}/{self.seed:04d}"

    @property
    def checkpoint(self) -> str:
        """The file that holds its unfinished state."""
        return f"{self.folder}/checkpoints/{self.key}.pt"

    @property
    def planned_epochs(self) -> int:
        """Epochs of a training that is not stopped; with a budget of seconds, at most."""
        return self.planned or self.config["epochs"]

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class Record:
    """One epoch of a job: floats by metric, and (correct, total) of those that are accuracies."""

    epoch: int
    metrics: dict[str, float]
    counts: dict[str, tuple[int, int]]

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def work(config: TrainConfig) -> dict[str, Any]:
    """The part of a job that says what to train: `config`, `data` and `planned`."""
    by_views = config.budget is not None and config.budget.views is not None
    planned = planned_epochs(config) if by_views else None
    return {"config": settings(config), "data": prepared(config), "planned": planned}


def job_from(data: dict[str, Any]) -> Job:
    """The inverse of `Job.plain`."""
    return Job(**(data | {"decide_at": tuple(data["decide_at"])}))


def record_from(data: dict[str, Any]) -> Record:
    """The inverse of `Record.plain`."""
    counts = {name: (int(c), int(n)) for name, (c, n) in data["counts"].items()}
    return Record(data["epoch"], data["metrics"], counts)
