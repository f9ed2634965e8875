"""Where can the runs in MLflow be browsed, without telling a password?"""

from __future__ import annotations

import pytest

from contrastive.workload import WORKLOAD
from study.records.job import Job, Record, work
from study.records.ledger import Ending
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
