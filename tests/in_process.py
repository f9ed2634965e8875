"""Whole studies in this process, without Ray and MLflow: what those do is not the point."""

from __future__ import annotations

import textwrap
from pathlib import Path

from study import execution, session
from study.execution.in_process import execute_here
from study.execution.resources import Share

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
    monkeypatch.setattr(execution, "share", lambda asked: Share(1, 0.0, 1))
    monkeypatch.setattr(
        execution,
        "execute",
        lambda source, *, monitors, **_: execute_here(source, monitors=monitors),
    )
