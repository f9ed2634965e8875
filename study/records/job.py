"""The job: one training of a study, as plain data that any process can carry out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from study.workload import Settings, Workload

Phase = Literal["search", "recheck", "confirm"]
Outcome = Literal["finished", "stopped", "diverged", "failed"]


@dataclass(frozen=True)
class Job:
    """One training to be run: a trial of the search or a run of the confirmation.

    Attributes:
        phase: which part of the study it belongs to; a recheck trains a good trial again.
        arm, condition, seed: where in the design.
        number: of the trial within its arm; None for a confirmation run.
        config: all settings of the workload.
        drawn: those of them that the search chose.
        decide_at: epochs after which the driver may stop it.
        folder: of the study.
        data: what the workload prepared in the driver: the folder of the dataset.
        gpus: its own share of GPUs; None: the study's.
        retried: why it runs a second time, or "".
        planned: its epochs if it is not stopped, at most; None where that is not known.
        workload, beside: what to train, and the folder where its module is looked for first.
        declared: the metrics that a function of the user's own may report.
        required: metrics without which it has not finished.
        replicate: the independent search that it belongs to, if there are several.
        test_epochs: epochs of which claims need a test metric besides the last, by metric.
        to_keep: what the study asks to keep of the trained model.
        training_seed: that the training draws from where it is not `seed`, which names its pair:
            of an arm that trains the same as an earlier one, see `study.design.twin_seed`.
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
    workload: str = "contrastive"
    beside: str = ""
    declared: dict[str, dict[str, str]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    replicate: int | None = None
    test_epochs: dict[str, list[int]] = field(default_factory=dict)
    to_keep: tuple[str, ...] = ()
    training_seed: int | None = None

    @property
    def key(self) -> str:
        """Its name within the study, also its path in the study's folder."""
        start = key_start(self.phase, self.arm, self.replicate)
        if self.phase == "search":
            return f"{start}{self.number:04d}"
        if self.phase == "recheck":
            return f"{start}{self.number:04d}/{self.seed:04d}"
        return confirmation_key(self.arm, self.condition, self.seed, self.replicate)

    @property
    def checkpoint(self) -> str:
        """The folder that holds its unfinished state."""
        return f"{self.folder}/checkpoints/{self.key}"

    @property
    def kept(self) -> str:
        """The folder of the files that the training handed to `run.keep`."""
        return f"{self.folder}/kept/{self.key}"

    @property
    def stop_file(self) -> str:
        """The file that is there while the study is being stopped."""
        return f"{self.folder}/ray/stopping"

    @property
    def planned_epochs(self) -> int | None:
        """Epochs of a training that is not stopped; with a budget of seconds, at most."""
        return self.planned or self.config.get("epochs")

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


def key_start(phase: str, arm: str, replicate: int | None) -> str:
    """What the keys of an arm's jobs in a phase begin with."""
    number = "" if replicate is None else f"{replicate:03d}/"
    return f"{phase}/{number}{arm}/"


def confirmation_key(arm: str, condition: str, seed: int, replicate: int | None) -> str:
    """The key of a run of the confirmation."""
    return f"{key_start('confirm', arm, replicate)}{condition}/{seed:04d}"


@dataclass(frozen=True)
class Record:
    """One epoch of a job: floats by metric, and (correct, total) of those that are accuracies.

    `earlier` of the last one has the test metrics of earlier epochs: they were measured with it, in
    the one reading of the test split.
    """

    epoch: int
    metrics: dict[str, float]
    counts: dict[str, tuple[int, int]]
    earlier: tuple[Record, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        data = {"epoch": self.epoch, "metrics": self.metrics, "counts": self.counts}
        earlier = [record.plain() for record in self.earlier]
        return data | ({"earlier": earlier} if earlier else {})


def work(workload: Workload, settings: Settings) -> dict[str, Any]:
    """The part of a job that says what to train: `config`, `data` and `planned`.

    Args:
        workload: of the study.
        settings: complete.
    """
    length = workload.length(settings)
    planned = length[1] if length else None
    return {"config": settings, "data": workload.prepare(settings), "planned": planned}


def job_from(data: dict[str, Any]) -> Job:
    """The inverse of `Job.plain`."""
    if not isinstance(data["config"], dict) or not isinstance(data.get("drawn", {}), dict):
        raise TypeError("settings are no mapping")
    tuples = {
        name: tuple(data[name]) for name in ("decide_at", "required", "to_keep") if name in data
    }
    return Job(**(data | tuples))


def record_from(data: dict[str, Any]) -> Record:
    """The inverse of `Record.plain`."""
    metrics = data["metrics"]
    if not isinstance(data["epoch"], int) or not isinstance(metrics, dict):
        raise TypeError("no record")
    if not all(isinstance(value, int | float) for value in metrics.values()):
        raise TypeError("a metric is no number")
    counts = {name: (int(c), int(n)) for name, (c, n) in data["counts"].items()}
    earlier = tuple(record_from(record) for record in data.get("earlier", ()))
    return Record(data["epoch"], metrics, counts, earlier)
