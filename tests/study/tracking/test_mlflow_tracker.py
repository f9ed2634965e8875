"""Is all of a study in MLflow, whatever its server does, and where can it be browsed?"""

from __future__ import annotations

import itertools
import threading
from typing import ClassVar

import pytest

from contrastive.workload import WORKLOAD
from study.records.job import Job, Record, work
from study.records.ledger import Ending
from study.tracking import mlflow_tracker
from study.tracking.mlflow_address import browse_command, browse_url
from study.tracking.mlflow_tracker import Tracker
from study.tracking.mlflow_writer import _name


@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("", "http://127.0.0.1:5000"),  # `mlflow.db` here, shown by `mlflow ui`
        ("sqlite:////data/mlflow.db", "http://127.0.0.1:5000"),
        ("http://server:8080/", "http://server:8080"),
        ("https://me:secret@server/ml?token=secret", "https://server/ml"),
        ("postgresql://me:secret@host/db", "http://127.0.0.1:5000"),
        ("databricks", None),
    ],
)
def test_the_ui_is_the_servers_or_the_one_that_the_printed_line_starts(monkeypatch, uri, url):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert browse_url() == url


def test_the_line_to_open_a_server_has_no_password(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@server/ml")
    assert browse_command() == "open https://server/ml"


@pytest.mark.parametrize(
    ("phase", "condition", "number", "replicate", "name"),
    [
        ("search", "default", 2, 3, "r3 · a · trial 2"),
        ("recheck", "clean", 2, 3, "r3 · a · clean · trial 2 · seed 7"),
        ("confirm", "default", None, 12, "r12 · a · seed 7"),
        ("confirm", "clean", None, None, "a · clean · seed 7"),
    ],
)
def test_a_runs_name_begins_with_what_differs(phase, condition, number, replicate, name):
    job = Job(phase, "a", condition, 7, number, {}, "", "", replicate=replicate)
    assert _name(job) == name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_final_figures_at_an_epoch_that_was_written_before_are_not_lost(tmp_path, monkeypatch):
    """Under a budget of seconds a restarted training may end before what its first worker told."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    config = WORKLOAD.complete({"dataset": "digits", "epochs": 50, "budget": {"seconds": 5.0}})
    job = Job("confirm", "a", "clean", 1, None, folder=str(tmp_path), **work(WORKLOAD, config))
    records = [Record(epoch, {"views": 10.0 * epoch}, {}) for epoch in range(7)]
    early = tuple(Record(epoch, {"test/knn_top1": epoch / 10}, {}) for epoch in (1, 2))
    last = Record(4, {"views": 40.0, "test/knn_top1": 0.5}, {}, early)
    warned: list[str] = []
    tracker = Tracker("t", tags={"study.id": "1"}, warn=warned.append)
    tracker.phase("confirm", params={})
    tracker.on_start(job)
    tracker.on_records(job, records)
    tracker.on_end(Ending(job, "finished", (*records[:4], last)))
    ids = tracker.flush()
    tracker.close()
    assert warned == []
    history = mlflow.MlflowClient().get_metric_history(ids[job.key], "test/knn_top1")
    assert [(point.step, point.value) for point in history] == [(1, 0.1), (2, 0.2), (4, 0.5)]
    views = mlflow.MlflowClient().get_metric_history(ids[job.key], "views")
    assert sorted(point.step for point in views) == list(range(7))


class Writer:
    """A writer that notes what it is asked for; `trouble` is called before each request."""

    done: ClassVar[list[str]]

    def __init__(self, name, tags, ids, applies) -> None:
        self.trouble()

    @staticmethod
    def trouble() -> None: ...

    def find_runs(self) -> None:
        self.trouble()

    def place(self) -> dict[str, str]:
        return {}

    def end(self, ending: Ending) -> None:
        self.trouble()
        self.done.append(ending.job.key)

    backfill = end

    def flush(self) -> None:
        self.trouble()


def ended(seed: int) -> Ending:
    return Ending(Job("confirm", "a", "clean", seed, None, {"epochs": 1}, "", ""), "finished", ())


ALL = [f"confirm/a/clean/{seed:04d}" for seed in range(1, 5)]


@pytest.fixture
def writer(monkeypatch) -> type[Writer]:
    """In place of the real one, with a patience of tenths of a second."""
    found = type("Writer", (Writer,), {"done": []})
    monkeypatch.setattr(mlflow_tracker, "MlflowWriter", found)
    monkeypatch.setattr(mlflow_tracker, "PATIENCE_S", 0.5)
    monkeypatch.setattr(mlflow_tracker, "RETRY_AFTER_S", 0.01)
    monkeypatch.setattr(mlflow_tracker, "TICK_S", 0.01)
    return found


def track(seeds=range(1, 5)) -> list[str]:
    """What is said while these trainings are mirrored."""
    said: list[str] = []
    tracker = Tracker("own", tags={"study.id": "1"}, warn=said.append)
    for seed in seeds:
        tracker.on_end(ended(seed))
        tracker.flush()
    tracker.close()
    tracker._thread.join(1)  # it may still be at its last try
    return said


def test_what_is_written_is_written_once_and_nothing_is_said(writer):
    assert track() == []
    assert writer.done == ALL


@pytest.mark.parametrize("fails_at", range(1, 12))
@pytest.mark.parametrize("times", [1, 3])
def test_after_an_outage_it_goes_on_where_it_was(writer, fails_at: int, times: int):
    asked = itertools.count(1)

    def trouble() -> None:
        if fails_at <= next(asked) < fails_at + times:
            raise OSError("gone")

    writer.trouble = staticmethod(trouble)
    said = track()
    assert writer.done == ALL
    if next(asked) > fails_at:
        assert said[0].startswith("MLflow cannot be written (gone); the study continues")
    assert len(said) <= 2


def test_a_server_that_never_answers_is_waited_for_within_the_patience(writer):
    forever = threading.Event()
    writer.trouble = staticmethod(forever.wait)
    (told,) = track()
    assert told.startswith("MLflow lacks 4 trainings")
    assert "--resume sends" in told
    forever.set()


def test_a_server_that_is_gone_at_the_end_is_told_and_the_next_start_sends_the_rest(writer):
    def gone() -> None:
        raise OSError("gone")

    writer.trouble = staticmethod(gone)
    told = track()
    assert len(told) == 2
    assert told[1].startswith("MLflow lacks 4 trainings, which the study itself has")
    writer.trouble = staticmethod(lambda: None)
    tracker = Tracker("own", tags={"study.id": "1"}, warn=told.append)
    tracker.backfill([ended(seed) for seed in range(1, 5)])
    tracker.close()
    assert writer.done == ALL
    assert len(told) == 2


METHODS = ("create_run", "log_batch", "update_run", "set_terminated")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reached", [False, True], ids=["request lost", "answer lost"])
def test_real_runs_are_complete_whatever_request_fails(tmp_path, monkeypatch, reached: bool):
    """Each method of MLflow's client fails at its first call of three trainings."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setattr(mlflow_tracker, "RETRY_AFTER_S", 0.01)
    monkeypatch.setattr(mlflow_tracker, "PATIENCE_S", 120.0)
    failed: set[tuple[str, str]] = set()

    def failing(name: str):
        real = getattr(mlflow.MlflowClient, name)

        def call(self, first, *args, **options):
            # Each call that differs in what it does to which run fails once.
            what = (name, f"{first} {sorted(options.get('tags') or ())} {len(options)}")
            if name == "create_run":
                what = (name, options["run_name"])
            if what in failed:
                return real(self, first, *args, **options)
            failed.add(what)
            if reached:
                real(self, first, *args, **options)
            raise OSError("gone")

        return call

    for name in METHODS:
        monkeypatch.setattr(mlflow.MlflowClient, name, failing(name))
    config = WORKLOAD.complete({"dataset": "digits", "epochs": 3})
    jobs = [
        Job("confirm", "a", "clean", s, None, folder=str(tmp_path), **work(WORKLOAD, config))
        for s in (1, 2, 3)
    ]
    tracker = Tracker("own", tags={"study.id": "1"}, warn=lambda text: None)
    tracker.phase("confirm", params={"arms": "a"})
    for job in jobs:
        tracker.on_start(job)
        records = [
            Record(epoch, {"train/loss": 1.0 / epoch, "seconds": 1.0}, {}) for epoch in (1, 2)
        ]
        tracker.on_records(job, records)
        last = Record(3, {"train/loss": 0.1, "test/knn_top1": 0.5, "seconds": 2.0}, {})
        tracker.on_records(job, [last])
        tracker.on_end(Ending(job, "finished", (*records, last)))
    tracker.close()
    assert {name for name, _ in failed} == set(METHODS)
    monkeypatch.undo()
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("own").experiment_id])
    assert len(runs) == 1 + 3
    for run in runs:
        if run.data.tags["study.key"] == "confirm":
            assert run.data.params == {"arms": "a"}
            continue
        assert run.data.tags["outcome"] == "finished"
        assert run.info.status == "FINISHED"
        assert run.data.params["loss"] == "contrastive"
        points = client.get_metric_history(run.info.run_id, "train/loss")
        assert sorted((p.step, p.value) for p in points) == [(1, 1.0), (2, 0.5), (3, 0.1)]
        assert run.data.metrics["test/knn_top1"] == 0.5
