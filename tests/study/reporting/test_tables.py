"""Do the tables of a study's folder hold what the ledger knows?"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from study.design.study import Study
from study.records.job import Job, Record, work
from study.records.ledger import Ending, Ledger
from study.records.rows import RUN_COLUMNS
from study.reporting.tables import run_rows, write_tables
from study.reporting.verify import _different_rows
from study.spec.find_workload import resolved
from study.storage.folder import Folder

# (arm, outcome, val/knn_top1, views, temperature)
TRIALS = [
    ("a", "finished", 0.5, 300.0, 0.1),
    ("a", "finished", 0.6, 900.0, 0.2),
    ("a", "finished", 0.5, 400.0, 0.3),  # the first is as good and cheaper
    ("a", "failed", 0.9, 100.0, 0.4),
    ("b", "finished", 0.4, 900.0, 0.5),  # behind every one of arm a
]


def study(metric: object) -> Study:
    space = {"temperature": {"low": 0.1, "high": 1.0}}
    return resolved(
        {
            "name": "p",
            "trial": {"dataset": "digits", "epochs": 3},
            "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos"}},
            "search": {"trials_per_arm": 4, "space": space, "metric": metric},
            "confirm": {"seeds": 2},
        }
    )


def tables(folder: Path, metric: object, failure: str = "") -> Folder:
    """The folder with its tables, after the trials above."""
    s, ledger = study(metric), Ledger(folder)
    for number, (arm, outcome, quality, views, temperature) in enumerate(TRIALS):
        drawn = {"temperature": temperature}
        training = work(s.trains, s.trains.complete(s.fixed(arm, "default") | drawn))
        job = Job(
            phase="search", arm=arm, condition="default", seed=0, number=number, drawn=drawn,
            folder=str(folder), **training,
        )  # fmt: skip
        record = Record(3, {"val/knn_top1": quality, "views": views}, {})
        ledger.write(Ending(job, outcome, (record,), failure * (outcome == "failed")))
    winners = {"a": {"temperature": 0.2}, "b": {"temperature": 0.5}}
    Folder(folder).freeze(winners)
    write_tables(Folder(folder), s, {})
    return Folder(folder)


def test_the_pareto_front_of_each_arm_by_itself(tmp_path):
    folder = tables(tmp_path, ["val/knn_top1", "views"])
    front = pd.read_csv(folder.path / "pareto.csv")
    shown = ["arm", "trial", "winner", "val/knn_top1", "views"]
    assert set(front.columns) == {*shown, "replicate", "config"}
    rows = front[shown].to_numpy().tolist()
    assert rows == [
        ["a", 1, True, 0.6, 900.0],
        ["a", 0, False, 0.5, 300.0],
        ["b", 4, True, 0.4, 900.0],
    ]
    assert json.loads(front.config[1])["temperature"] == 0.1
    assert pd.read_csv(folder.runs_csv).value[:2].tolist() == [0.5, 0.6]  # the first metric


@pytest.mark.parametrize("failure", ["=HYPERLINK(1)", "+1+1", "-x", "@x", "an error", "-0.5"])
def test_a_text_that_a_spreadsheet_would_run_is_text(tmp_path, failure: str):
    folder, s = tables(tmp_path, "val/knn_top1", failure), study("val/knn_top1")
    (shown,) = pd.read_csv(folder.runs_csv, dtype=str).query("status == 'failed'").failure
    assert shown == (failure if failure in ("an error", "-0.5") else f"'{failure}")
    (kept,) = [e.failure for e in Ledger(folder.path).all("search") if e.outcome == "failed"]
    assert kept == failure
    rows = run_rows(folder, s, folder.frozen(s), {})  # as --verify computes them
    assert list(_different_rows(folder.runs_csv, RUN_COLUMNS, rows)) == []


def test_one_metric_has_no_front(tmp_path):
    assert not (tables(tmp_path, "val/knn_top1").path / "pareto.csv").exists()
