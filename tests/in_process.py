"""Jobs and whole studies in this process, without Ray and MLflow: they are not the point."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from study import execution, session
from study.execution.dispatcher import Dispatcher, Work, default_work
from study.execution.protocols import Monitor, Source
from study.execution.resources import Share
from study.records import Job
from study.workload import Stopped

TRAINING = """
def train(run, *, rate: float = 0.5, width: int = 4, epochs: int = 3) -> None:
    for epoch in range(1, epochs + 1):
        metrics = {"val/error": rate / width + width * (run.seed % 7) / 10_000}
        if epoch == epochs and run.read_test:
            metrics["test/error"] = metrics["val/error"] + 0.01 * rate
        run.report(epoch, metrics)
"""
STUDY = """\
name: own
question: Is <wide> better?
workload: my_training:train
metrics:
  val/error:  {better: lower, unit: fraction}
  test/error: {better: lower, unit: fraction}
arms:
  narrow: {width: 4}
  wide:   {width: 8}
scope: configuration
search:
  trials_per_arm: 2
  space: {rate: {low: 0.1, high: 0.9}}
confirm: {seeds: 8}
claims:
  - {id: W1, better: wide, than: narrow, metric: test/error}
margin: 0.001
"""


PLAIN = """
import time

class OutOfMemoryError(RuntimeError): ...

def train(run, *, epochs: int = 3, seconds: float = 0.0, runs_out: bool = False) -> None:
    for epoch in range(1, epochs + 1):
        time.sleep(seconds)
        if runs_out and epoch == 2:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB.")
        run.report(epoch, {"val/error": 1.0 / epoch})
"""


def plain_job(folder: Path, arm: str, number: int = 0, **settings: Any) -> Job:
    """A training of a few lines: PyTorch would be imported anew by each of Ray's workers."""
    (folder / "plain.py").write_text(PLAIN)
    config = {"epochs": 3, "seconds": 0.0} | settings
    return Job(
        phase="search", arm=arm, condition="default", seed=1, number=number, config=config,
        folder=str(folder), data="", planned=config["epochs"], decide_at=(1, 2),
        workload="plain:train", beside=str(folder), declared={"val/error": {"better": "lower"}},
        required=("val/error",),
    )  # fmt: skip


def execute_here(
    source: Source,
    *,
    monitors: Sequence[Monitor] = (),
    work: Work | None = None,
    gpus: float = 0.0,
    threads: int = 1,
) -> None:
    """As `execute`, one job after the other in this process and without Ray.

    `gpus` is the share that jobs believe to have; nothing is reserved.
    """
    conductor = Dispatcher(source, monitors, threads=threads, gpus=gpus)
    while (job := conductor.start("here")) is not None:
        with contextlib.suppress(Stopped):
            (work or default_work())(job.plain(), _report_here(conductor), threads=threads)
        conductor.raise_if_broken()  # `work` takes whatever is raised for the job's own fault
        conductor.end("here", lost=None)


def _report_here(conductor: Dispatcher) -> Callable[[dict[str, Any]], None]:
    def report(result: dict[str, Any]) -> None:
        with conductor.guarded():
            stop = conductor.result("here", result)
        if stop:
            raise Stopped

    return report


class NoTracker:
    """A tracker that does nothing: MLflow takes seconds to start."""

    def __init__(self, *args: object, **options: object) -> None: ...

    def flush(self) -> dict[str, str]:
        return {}

    place = flush

    def __getattr__(self, name: str):
        return lambda *args, **options: None


def write_study(folder: Path, text: str = STUDY) -> Path:
    """The study file above, with its training function beside it."""
    (folder / "my_training.py").write_text(textwrap.dedent(TRAINING))
    file = folder / "own.yaml"
    file.write_text(text)
    return file


def without_ray(monkeypatch) -> None:
    """Let studies train in this process, one training after the other."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.setattr(session, "Tracker", NoTracker)
    monkeypatch.setattr(execution, "start_ray", lambda address, study: None)
    monkeypatch.setattr(execution, "stop_ray", lambda: None)
    monkeypatch.setattr(execution, "share", lambda asked: Share(asked.cpus, 0.0, 1))
    monkeypatch.setattr(
        execution,
        "execute",
        lambda source, *, monitors, share, **_: execute_here(
            source, monitors=monitors, threads=share.cpus
        ),
    )
