"""Replicates are independent searches, the same in every arm, and survive any interruption."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from in_process import execute_here

from analysis import analyse
from analysis.inputs import read_plan
from study.errors import SpecError
from study.phases import ConfirmSource, ReplicatesSource, confirmation_jobs
from study.records import Ledger
from study.reporting import write_tables
from study.spec import load_study
from study.storage import Folder

TRAIN = """\
import random

def train(run, *, rate: float = 0.5, kind: str = "a", split_seed: int = 0, epochs: int = 3):
    noise = random.Random(f"{run.seed} {split_seed}").gauss(0, 0.02)
    for epoch in range(1, epochs + 1):
        metrics = {"val/error": (rate - 0.3) ** 2 + (kind == "b") * 0.05 + noise / epoch}
        if epoch == epochs and run.read_test:
            metrics["test/error"] = metrics["val/error"] + noise
        run.report(epoch, metrics)
"""
STUDY = """\
name: r
workload: surface:train
metrics: {val/error: {better: lower}, test/error: {better: lower}}
arms: {a: {kind: a}, b: {kind: b}}
search:
  replicates: 3
  vary: [sampler, training, split]
  trials_per_arm: 3
  space: {rate: {low: 0.0, high: 1.0}}
  early_stopping: {grace_epochs: 1, reduction_factor: 2}
confirm: {seeds: 1}
claims: [{id: A, better: a, than: b, metric: test/error}]
"""


@pytest.fixture
def load(tmp_path: Path):
    (tmp_path / "surface.py").write_text(TRAIN)

    def loaded(*overrides: str):
        (tmp_path / "r.yaml").write_text(STUDY)
        return load_study(tmp_path / "r.yaml", overrides=overrides)

    return loaded


class Killed(BaseException):
    """The driver dies."""


class KilledAfter:
    """A monitor that ends the driver after so many jobs."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs

    def on_start(self, job) -> None: ...

    def on_records(self, job, records) -> None: ...

    def on_end(self, ending) -> None:
        self.left -= 1
        if not self.left:
            raise Killed


def run(study, path: Path, *, jobs: int | None = None) -> list[dict[str, str]]:
    folder, ledger = Folder(path / "r"), Ledger(path / "r")
    folder.path.mkdir(parents=True, exist_ok=True)
    source = ReplicatesSource(study, folder, ledger, slots=lambda: 1)
    execute_here(source, monitors=[KilledAfter(jobs)] if jobs else ())
    write_tables(folder, study, {})
    with folder.runs_csv.open(newline="") as table:
        return list(csv.DictReader(table))


@pytest.mark.slow
def test_each_replicate_has_seeds_of_its_own_the_same_in_every_arm(load, tmp_path):
    rows = run(load(), tmp_path)
    seeds = {}
    for row in rows:
        seeds.setdefault((row["phase"], row["replicate"]), set()).add(row["seed"])
    assert all(len(seeds["search", r]) == 1 and len(seeds["confirm", r]) == 1 for r in "123")
    drawn = [seed for found in seeds.values() for seed in found]
    assert len(drawn) == len(set(drawn)) == 6
    for row in rows:
        others = [
            other
            for other in rows
            if other["arm"] != row["arm"]
            and (other["phase"], other["replicate"]) == (row["phase"], row["replicate"])
        ]
        assert {r["seed"] for r in others} >= {row["seed"]}
    splits = {(row["replicate"], row["config"].split('"split_seed": ')[1]) for row in rows}
    assert len(splits) == 3


@pytest.mark.slow
def test_every_replicate_has_its_whole_search_and_confirmation(load, tmp_path):
    counts = Counter((r["phase"], r["arm"], r["replicate"]) for r in run(load(), tmp_path))
    assert counts == {
        (phase, arm, str(r)): n for phase, n in (("search", 3), ("confirm", 1))
        for arm in "ab" for r in (1, 2, 3)
    }  # fmt: skip


@pytest.mark.slow
def test_samplers_draw_different_points_in_each_replicate(load, tmp_path):
    rows = [row for row in run(load(), tmp_path) if row["phase"] == "search" and row["arm"] == "a"]
    drawn = {r: [row["config"] for row in rows if row["replicate"] == r] for r in "123"}
    assert len({config for found in drawn.values() for config in found}) == 9


@pytest.mark.parametrize("vary", ["sampler", "training"])
def test_what_is_not_varied_stays_the_same(load, tmp_path, vary: str):
    study = load(f"search.vary=[{vary}]")
    first, second = study.replicates[:2]
    assert (first.search.seed == second.search.seed) == (vary == "sampler")
    assert (first.sampler_seed == second.sampler_seed) == (vary == "training")
    assert first.trial == second.trial


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [7, 4, 15])
def test_a_killed_study_resumes_to_the_very_same_results(load, tmp_path, jobs: int):
    run(load(), tmp_path / "whole")
    with pytest.raises(Killed):
        run(load(), tmp_path / "killed", jobs=jobs)
    run(load(), tmp_path / "killed")
    for table in ("results.csv", "winners.json"):
        whole, killed = (tmp_path / name / "r" / table for name in ("whole", "killed"))
        assert killed.read_bytes() == whole.read_bytes()


def test_a_study_that_is_cut_short_has_whole_replicates(load, tmp_path):
    with pytest.raises(Killed):
        run(load(), tmp_path, jobs=10)
    ledger = Ledger(tmp_path / "r")
    assert len(list(ledger.all("search", 1))) == 6
    assert len(list(ledger.all("confirm", 1))) == 2
    assert not list(ledger.all("search", 3))


@pytest.mark.slow
def test_growing_by_replicates_leaves_the_others_as_they_are(load, tmp_path):
    run(load("search.replicates=2"), tmp_path / "grown")
    run(load(), tmp_path / "grown")
    run(load(), tmp_path / "once")
    grown, once = (tmp_path / name / "r" / "results.csv" for name in ("grown", "once"))
    assert grown.read_bytes() == once.read_bytes()


def test_without_replicates_nothing_of_this_shows(load, tmp_path):
    study = load("search.replicates=1", "confirm.seeds=4")
    assert study.replicates == [study]
    assert study.number is None
    assert study.all_seeds == [1, 2, 3, 4]


def test_claims_are_about_methods_where_something_is_tuned(load):
    """As the report takes them: a plan that says otherwise would promise verdicts."""
    for overrides in ([], ["search.replicates=1"], ["search=null", "confirm.seeds=8"]):
        study = load(*overrides)
        assert study.about == ("method" if study.search else "configuration")
        assert read_plan(study.declared()).scope == study.about


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["search.replicates=0"], "search.replicates is 0"),
        (["search.vary=[luck]"], "search.vary.0 is 'luck'"),
        (["search.vary=[split]"], "replicates would be repetitions"),
        (["confirm.seeds=[1,2]"], "each of the 3 replicates has seeds of its own"),
        (["search=null", "scope=method"], "scope is method, but there is no search"),
        (["scope=methods"], "scope is 'methods'"),
    ],
)
def test_bad_input_is_refused(load, overrides, said: str):
    with pytest.raises(SpecError, match=said.replace("'", ".")) as caught:
        load(*overrides)
    assert "allowed: " in str(caught.value)


def test_a_split_that_the_workload_does_not_have_is_refused(load, tmp_path):
    load()
    (tmp_path / "surface.py").write_text(TRAIN.replace("split_seed: int = 0, ", "").replace(
        " {split_seed}", ""))  # fmt: skip
    for vary in ("[sampler, split]", "[split]"):
        with pytest.raises(SpecError) as told:
            load_study(tmp_path / "r.yaml", overrides=[f"search.vary={vary}"])
        assert "surface:train has no setting `split_seed`" in str(told.value)
        assert len(told.value.faults) == 1


@pytest.mark.parametrize(
    ("decisions", "asked", "complete"),
    [
        ([False, True], [1, 2], 2),
        pytest.param([False, False], [1, 2], 3, marks=pytest.mark.slow),
        pytest.param([True], [1], 1, marks=pytest.mark.slow),
    ],
)
def test_a_study_ends_at_the_look_where_all_is_decided(load, tmp_path, decisions, asked, complete):
    study, found, answers = load("confirm.looks=[1,2,3]"), [], list(decisions)
    folder, ledger = Folder(tmp_path / "r"), Ledger(tmp_path / "r")
    folder.path.mkdir()

    def decided(units: int) -> bool:
        found.append(units)
        ended = list(ledger.all("confirm"))
        assert {ending.job.replicate for ending in ended} == set(range(1, units + 1))
        return answers.pop(0)

    execute_here(ReplicatesSource(study, folder, ledger, slots=lambda: 2, decided=decided))
    assert found == asked
    assert {e.job.replicate for e in ledger.all("confirm")} == set(range(1, complete + 1))
    assert {e.job.replicate for e in ledger.all("search")} == set(range(1, complete + 1))


@pytest.mark.slow
def test_a_look_is_taken_again_on_resume_and_runs_nothing_more(load, tmp_path):
    study = load("confirm.looks=[2,3]")
    folder, ledger = Folder(tmp_path / "r"), Ledger(tmp_path / "r")
    folder.path.mkdir()
    execute_here(
        ReplicatesSource(study, folder, ledger, slots=lambda: 1, decided=lambda units: True)
    )
    again = ReplicatesSource(study, folder, ledger, slots=lambda: 1, decided=lambda units: True)
    assert again.remaining() == 0


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ("[2, 2, 3]", "does not increase"),
        ("[3, 2]", "does not increase"),
        ("[1, 4]", "ends at 4, but the search has 3 replicates"),
        ("[]", "confirm.looks is"),
        ("[0, 3]", "confirm.looks.0 is 0"),
    ],
)
def test_looks_that_cannot_be_taken_are_refused(load, looks: str, said: str):
    with pytest.raises(SpecError, match=said):
        load(f"confirm.looks={looks}")


def test_looks_need_replicates(load):
    with pytest.raises(SpecError, match="there is no search, hence no replicate"):
        load("search=null", "confirm.looks=[2,3]")
    with pytest.raises(SpecError, match="the search has 1 replicate\n"):
        load("search.replicates=1", "confirm.looks=[2,3]")


def test_rechecks_are_trained_on_seeds_of_their_own_in_each_replicate(load):
    study = load("search.rechecks={top: 1, seeds: [7, 8]}")
    seeds = [seed for part in study.replicates for seed in part.search.rechecks.seeds]
    assert len(set(seeds)) == 6
    same = load("search.rechecks={top: 1, seeds: [7, 8]}", "search.vary=[sampler]")
    assert [part.search.rechecks.seeds for part in same.replicates] == [[7, 8]] * 3


@pytest.mark.slow
def test_arms_that_are_the_same_draw_different_points(load, tmp_path):
    """An A/A study shows how far two searches of one method come apart; it needs two searches."""
    rows = run(load("arms={a: {kind: a}, b: {kind: a}}"), tmp_path)
    drawn = {
        arm: {row["config"] for row in rows if (row["phase"], row["arm"]) == ("search", arm)}
        for arm in "ab"
    }
    assert len(drawn["a"]) == len(drawn["b"]) == 9
    assert not drawn["a"] & drawn["b"]
    runs = {(r["phase"], r["arm"], r["replicate"]): r["seed"] for r in rows}
    for (phase, arm, replicate), seed in runs.items():
        assert runs[phase, "b" if arm == "a" else "a", replicate] == seed


TWINS = "arms={a: {kind: a}, b: {kind: a}}"
# Whatever is drawn, all arms have one winner.
ONE_POINT = "search.space.rate={choices: [0.4], low: null, high: null}"


def scores(path: Path) -> dict[str, list[float]]:
    """The final scores of each arm, in the order of the units."""
    found: dict[str, list[float]] = {}
    with (path / "r" / "results.csv").open(newline="") as table:
        for row in csv.DictReader(table):
            if row["metric"] == "test/error":
                found.setdefault(row["arm"], []).append(float(row["value"]))
    return found


@pytest.mark.parametrize(
    "overrides", [["search.replicates=6", ONE_POINT], ["search=null", "confirm.seeds=6"]]
)
def test_arms_that_are_the_same_train_from_seeds_of_their_own(load, tmp_path, overrides):
    """Whatever their winners are; else an A/A study would compare each run with itself."""
    study = load(TWINS, *overrides)
    if study.search:
        run(study, tmp_path)
    else:
        confirm_as_they_are(study, tmp_path)
    found = scores(tmp_path)
    assert len({*found["a"], *found["b"]}) == 12
    report = analyse(
        tmp_path / "r" / "results.csv", plan=study.declared(), runs=tmp_path / "r" / "runs.csv"
    )
    (claim,) = report.claims
    assert claim.verdict != "invalid"
    assert claim.interval[0] < 0 < claim.interval[1]


def confirm_as_they_are(study, path: Path) -> None:
    folder, ledger = Folder(path / "r"), Ledger(path / "r")
    folder.path.mkdir()
    jobs = confirmation_jobs(study, {arm: {} for arm in study.arms}, folder.path)
    execute_here(ConfirmSource(jobs, ledger, study.trains))
    write_tables(folder, study, {})


def test_arms_that_differ_share_their_seeds(load, tmp_path):
    """And the first of arms that are the same trains as it does beside arms that differ."""
    run(load(ONE_POINT), tmp_path / "differ")
    run(load(ONE_POINT, TWINS), tmp_path / "same")
    differ, same = scores(tmp_path / "differ"), scores(tmp_path / "same")
    assert [b - a for a, b in zip(*differ.values(), strict=True)] == pytest.approx([0.05] * 3)
    assert differ["a"] == same["a"]


def test_a_search_without_a_winner_is_a_failure_of_its_arm(load, tmp_path):
    """All of b's trials diverge in one replicate: the others are judged, and the report says so."""
    study = load("search.replicates=7", "search.early_stopping=none")
    diverging = TRAIN.replace("    noise =", """\
    if kind == "b" and run.replicate == 2:
        run.report(1, {"val/error": float("nan")})
    noise =""").replace("{split_seed}", "{kind}").replace("0.02", "0.002")  # fmt: skip
    (tmp_path / "surface.py").write_text(diverging)
    rows = run(study, tmp_path)
    (lost,) = [row for row in rows if row["status"] == "failed"]
    assert (lost["phase"], lost["arm"], lost["replicate"]) == ("confirm", "b", "2")
    assert lost["failure"] == "no trial of its search finished"
    report = analyse(
        tmp_path / "r" / "results.csv", plan=study.declared(), runs=tmp_path / "r" / "runs.csv"
    )
    (compared,) = [c for c in report["comparisons"] if c["claim"] == "A"]
    assert compared["n_units"] == 6
    assert compared["reason"] == "missing_sensitive"  # six differences of one sign, one unknown
