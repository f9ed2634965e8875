"""A worker that is lost, or stuck in a function that was stopped, costs no training its result."""

from __future__ import annotations

import subprocess
import sys

import pytest

from study.execution.dispatcher import STARTS, Dispatcher
from study.records import Job


class OneJob:
    """A source with a single job."""

    def __init__(self) -> None:
        self.waiting = [Job("search", "a", "default", 1, 0, {"epochs": 2}, "folder", "")]
        self.endings: list = []

    def remaining(self) -> int:
        return len(self.waiting)

    def next(self) -> Job | None:
        return self.waiting.pop(0) if self.waiting else None

    def on_records(self, job, records) -> bool:
        return False

    def on_end(self, ending) -> None:
        self.endings.append(ending)


def record(epoch: int, outcome: str | None = None) -> dict:
    records = [{"epoch": epoch, "metrics": {"val/error": 0.5}, "counts": {}}]
    return {"records": records, "outcome": outcome, "failure": ""}


def test_a_job_whose_worker_is_lost_before_any_report_is_started_again():
    source = OneJob()
    dispatcher = Dispatcher(source, (), threads=1, gpus=0.0)
    for attempt in range(STARTS - 1):
        assert dispatcher.start(f"t{attempt}") is not None
        assert not dispatcher.exhausted()
        dispatcher.end(f"t{attempt}", lost="the worker was lost")
        assert not source.endings
        assert not dispatcher.exhausted()
    assert dispatcher.start("last") is not None
    dispatcher.result("last", record(1))
    dispatcher.result("last", record(2, "finished"))
    dispatcher.end("last", lost=None)
    (ending,) = source.endings
    assert ending.outcome == "finished"
    assert [r.epoch for r in ending.records] == [1, 2]
    assert dispatcher.exhausted()


def test_a_job_that_loses_every_worker_fails():
    source = OneJob()
    dispatcher = Dispatcher(source, (), threads=1, gpus=0.0)
    for attempt in range(STARTS):
        dispatcher.start(f"t{attempt}")
        dispatcher.end(f"t{attempt}", lost="the worker was lost")
    (ending,) = source.endings
    assert (ending.outcome, ending.failure) == ("failed", "the worker was lost")
    assert dispatcher.exhausted()


def test_a_job_that_was_heard_of_is_not_started_again_here():
    """Tune itself starts it again, from its checkpoint, as often as `resources.retries` says."""
    source = OneJob()
    dispatcher = Dispatcher(source, (), threads=1, gpus=0.0)
    dispatcher.start("t")
    dispatcher.result("t", record(1))
    dispatcher.end("t", lost="the worker was lost")
    assert source.endings[0].outcome == "failed"


@pytest.mark.slow
def test_of_a_study_that_is_stopped_only_what_has_ended_is_noted():
    source = OneJob()
    conductor = Dispatcher(source, (), threads=1, gpus=0)
    conductor.start("first")
    conductor.result("first", record(1))
    source.waiting.append("another")
    conductor.stopping = True
    assert conductor.start("second") is None
    assert not conductor.exhausted()
    conductor.end("first", lost=None)
    assert conductor.exhausted()
    assert source.endings == []

    source = OneJob()
    conductor = Dispatcher(source, (), threads=1, gpus=0)
    conductor.start("first")
    conductor.stopping = True
    conductor.result("first", record(2, "finished"))
    conductor.end("first", lost=None)
    assert [ending.outcome for ending in source.endings] == ["finished"]


@pytest.mark.parametrize(("ended", "code"), [(False, 1), (True, 0)])
def test_a_worker_whose_stopped_function_does_not_return_is_ended(ended: bool, code: int):
    lines = [
        "import threading",
        "from study.execution import ray_tune",
        "ray_tune.CLEAN_UP_WITHIN_S = 0.1",
        "ended = threading.Event()",
        f"{ended} and ended.set()",
        "ray_tune._end_if_stuck(ended)",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    assert subprocess.run(command, check=False, timeout=60).returncode == code
