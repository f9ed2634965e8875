"""A table in a study's folder is bound by what was declared there, and reading it is a look."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from known_truth import METRIC, noisy, table_of

from analysis import analyse
from analysis.inputs.session_log import SessionLog
from analysis.report import main

PLAN = {
    "id": "1234",
    "hash": "ab" * 32,
    "arms": {"a": {}, "b": {}},
    "confirm": {"seeds": list(range(8)), "metrics": [METRIC]},
    "claims": [{"id": "C", "better": "b", "than": "a", "metric": METRIC}],
    "margin": 0.01,
}
TABLE = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})


def write(folder: Path, *, seeds: int = 8, **changes) -> Path:
    """A study's folder with so many seeds of its confirmation."""
    folder.mkdir(exist_ok=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(PLAN | changes))
    SessionLog(folder).append(session=1, seeds=PLAN["confirm"]["seeds"], units=0)
    TABLE[TABLE["seed"] < seeds].to_csv(folder / "results.csv", index=False)
    return folder / "results.csv"


def looks(table: Path) -> list[dict]:
    return [entry for entry in SessionLog(table.parent).entries() if entry.get("look")]


def test_a_whole_study_is_answered_by_its_own_plan_and_that_is_no_look(tmp_path):
    table = write(tmp_path)
    report = analyse(table)
    assert report.verdicts == {"C": "supported"}
    assert not report["claims"][0]["exploratory"]
    assert looks(table) == []


def test_a_peek_is_logged_and_decides_nothing_now_or_later(tmp_path):
    table = write(tmp_path, seeds=7)
    report = analyse(table)
    assert report["claims"][0]["reason"] == "unplanned_looks"
    assert "7 of 8 units are there" in report["warnings"][0]
    assert [(look["units"], look["planned"]) for look in looks(table)] == [(7, 8)]
    TABLE.to_csv(table, index=False)
    later = analyse(table)
    assert later["claims"][0]["reason"] == "unplanned_looks"
    assert "looked at after 7 of 8 units" in later["warnings"][0]
    assert SessionLog(tmp_path).breaks() == []


def test_a_copy_of_the_table_is_bound_by_the_plan_it_is_read_with(tmp_path):
    table = write(tmp_path / "s", seeds=7)
    frame = pd.read_csv(table)
    analyse(frame, plan=table.parent / "study.yaml")
    assert len(looks(table)) == 1


def test_units_of_which_a_run_is_planned_have_not_ended(tmp_path):
    table = write(tmp_path)
    rows = [("confirm", arm, "default", seed, "planned" if (arm, seed) == ("b", 7) else "finished")
            for arm in "ab" for seed in range(8)]  # fmt: skip
    runs = pd.DataFrame(rows, columns=["phase", "arm", "condition", "seed", "status"])
    runs.to_csv(tmp_path / "runs.csv", index=False)
    assert analyse(table)["claims"][0]["reason"] == "unplanned_looks"
    runs.assign(status="finished").to_csv(tmp_path / "runs.csv", index=False)
    assert looks(table)[0]["units"] == 7


@pytest.mark.parametrize(
    ("change", "exploratory"),
    [
        ({}, False),
        ({"margin": 0.02}, True),
        ({"claims": [PLAN["claims"][0] | {"better": "a", "than": "b"}]}, True),
        ({"alpha": 0.1}, True),
        ({"correction": "holm"}, True),
    ],
)
def test_another_plan_than_the_recorded_one_is_exploratory(tmp_path, change, exploratory: bool):
    table = write(tmp_path / "s")
    plan = {key: value for key, value in PLAN.items() if key not in ("id", "hash")} | change
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(plan))
    report = analyse(table, plan=tmp_path / "own.yaml")
    assert report["claims"][0]["exploratory"] == exploratory
    assert ("stands as study.yaml" in " ".join(report["warnings"])) == exploratory


def test_claims_made_in_a_script_are_no_declared_ones(tmp_path):
    claims = [{"better": "b", "than": "a", "metric": METRIC}]
    assert analyse(write(tmp_path), claims=claims)["claims"][0]["exploratory"]


def test_a_log_with_a_line_taken_out_leaves_every_claim_undecided(tmp_path):
    table = write(tmp_path, seeds=7)
    analyse(table)
    log = tmp_path / "sessions.jsonl"
    log.write_text(log.read_text().splitlines(keepends=True)[0])
    TABLE.to_csv(table, index=False)
    report = analyse(table)
    assert report["claims"][0]["reason"] == "unplanned_looks"
    assert "looks may be missing" in report["warnings"][0]


def test_a_plan_that_no_study_recorded_binds_nothing(tmp_path):
    table = write(tmp_path, hash="of my own")
    assert not analyse(table)["design"]["declared"]
    (tmp_path / "study.yaml").write_bytes(b"\xff\xfe")
    assert not analyse(table)["design"]["declared"]


def test_a_table_with_fewer_units_than_its_plan_is_a_look(tmp_path):
    """Whoever stops there, or goes on, has seen it, with or without a study's folder."""
    plan = {key: value for key, value in PLAN.items() if key not in ("id", "hash")}
    assert analyse(TABLE, plan=plan).verdicts == {"C": "supported"}
    report = analyse(TABLE[TABLE["seed"] < 7], plan=plan)
    assert report["claims"][0]["reason"] == "unplanned_looks"
    broke = TABLE.assign(status="finished")
    broke.loc[broke["seed"] == 7, "status"] = "failed"
    assert analyse(broke, plan=plan)["design"]["unplanned_looks"] is False


def test_the_command_says_whose_plan_it_took(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("analysis.rendering.report_object.Report.save", lambda self, out: out)
    table = write(tmp_path)
    assert main([str(table), "--out", str(tmp_path / "out")]) == 0
    assert f"plan: {tmp_path / 'study.yaml'}" in capsys.readouterr().out
