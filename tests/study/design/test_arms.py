"""Are arms and their lengths resolved once; are budgets known beforehand and spent fairly?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from in_process import execute_here

from contrastive.workload import WORKLOAD
from study.design.arms import arms_of, planned_epochs, timed
from study.errors import SpecError, StudyError
from study.execution.worker import run_job
from study.phases.confirmation import ConfirmSource, confirmation_jobs
from study.phases.search import SearchSource
from study.planning.dry_run import plan_lines
from study.records.job import Job, job_from, record_from, work
from study.records.ledger import Ending, Ledger
from study.reporting.verify import _other_configs
from study.spec.load import load_study
from study.storage.folder import Folder

# 60 images: 3 steps of 20 in an epoch, so 120 views with M = 1, 300 with M = 4.
VIEWS = """\
name: t
trial: {dataset: digits, train_limit: 60, batch_size: 20, blur_prob: 0.0, budget: {views: 600}}
arms:
  one: {num_positives: 1}
  four: {num_positives: 4}
  any: {loss: debiased_pos}
search:
  trials_per_arm: 6
  space:
    num_positives: {choices: [1, 2, 4]}
    temperature: {low: 0.1, high: 1.0, log: true}
  early_stopping: {grace_epochs: 1, reduction_factor: 2}
confirm: {seeds: 2}
claims:
  - {id: A, better: four, than: one, metric: "auc(val/knn_top1, epochs 1-2)"}
"""


@pytest.fixture
def load(tmp_path: Path):
    def loaded(text: str = VIEWS, **options):
        file = tmp_path / "s.yaml"
        file.write_text(text)
        return load_study(file, **options)

    return loaded


def refused(load, text: str, **options) -> str:
    with pytest.raises(SpecError) as caught:
        load(text, **options)
    return str(caught.value)


def test_epochs_follow_from_views_positives_and_images(load):
    study = load()
    assert arms_of(study)["one"].length("default") == (5, 5)
    assert arms_of(study)["four"].length("default") == (2, 2)
    assert arms_of(study)["any"].length("default") == (2, 5)
    assert arms_of(study)["any"].length("default", data=False) is None
    assert not timed(study, "default")
    assert timed(load(TIMED), "default")
    # A batch of 31 leaves 29 of 60 images out: as many views take twice the epochs.
    searched = VIEWS.replace(
        "choices: [1, 2, 4]}", "choices: [1]}\n    batch_size: {low: 20, high: 40}"
    )
    assert arms_of(load(searched))["any"].length("default") == (5, 10)


def test_a_job_knows_its_epochs_and_keeps_them(load, tmp_path):
    source = SearchSource(load(), tmp_path, Ledger(tmp_path), slots=1)
    jobs = [source.next() for _ in range(3)]
    assert [(j.arm, j.planned_epochs) for j in jobs[:2]] == [("one", 5), ("four", 2)]
    for job in jobs:
        assert job_from(job.plain()).planned_epochs == job.planned_epochs
        assert all(epoch < job.planned_epochs for epoch in job.decide_at)


@pytest.mark.slow
def test_no_trial_is_stopped_at_its_own_last_epoch(load, tmp_path):
    """Rungs at 1, 2 and 4: epoch 2 is a rung of the arm and the last epoch of M = 4."""
    ledger = Ledger(tmp_path)
    execute_here(SearchSource(load(), tmp_path, ledger, slots=1))
    endings = list(ledger.all("search"))
    assert len(endings) == 18
    assert {e.outcome for e in endings} == {"finished", "stopped"}
    for ending in endings:
        assert (ending.outcome == "finished") == (ending.epochs == ending.job.planned_epochs)
        if ending.outcome == "finished":
            assert 600 <= ending.records[-1].metrics["views"] < 700  # to within a step of M = 4
    assert any(e.outcome == "finished" and e.epochs == 2 for e in endings)


def test_a_job_that_ends_by_itself_is_not_stopped_in_the_same_breath(tmp_path):
    """With a budget of seconds nobody knows the last epoch beforehand, and it may be a rung."""
    config = WORKLOAD.complete(
        {"dataset": "digits", "train_limit": 60, "batch_size": 20, "epochs": 50}
        | {"budget": {"seconds": 1e-9}}
    )
    job = Job("search", "a", "clean", 1, 0, config, str(tmp_path), "", decide_at=(1, 2))
    found: list[dict] = []
    run_job(job.plain(), found.append)
    assert [[r["epoch"] for r in report["records"]] for report in found] == [[0, 1]]
    assert found[-1]["outcome"] == "finished"
    assert record_from(found[-1]["records"][-1]).metrics["views"] == 40  # one step


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("budget: {views: 600}", "budget: {views: 600}, epochs: 5",
         ["s.yaml:2: a budget of views says how long", "epochs: null"]),
        ("{num_positives: 1}", "{num_positives: 1, epochs: 9}",
         ["s.yaml:4: a budget of views says how long"]),
        ("{num_positives: 1}", "{num_positives: 1, budget: {views: 9}}",
         ["s.yaml:4: arms.one.budget: arms may not differ in `budget`"]),
        ("budget: {views: 600}", "budget: {seconds: 5}",
         ["s.yaml:2: a budget of seconds needs epochs too"]),
        ("budget: {views: 600}", "budget: {vews: 600}",
         ["trial.budget is {'vews': 600}", "one of {epochs: N}", "try: {views"]),
        ("budget: {views: 600}", "budget: {views: -1}", ["trial.budget is", "above 0"]),
        ("budget: {views: 600}", "budget: 600", ["trial.budget is 600", "{views: N}"]),
        ("grace_epochs: 1", "grace_epochs: 3",
         ["grace_epochs is 3, but four trains for 2 epochs", "allowed: 1 to 1"]),
        ("epochs 1-2", "epochs 1-4",
         ["s.yaml:15", "after the last epoch of four", "no more than 2", "epochs 1-2)"]),
        ("budget: {views: 600}", "epochs: 9, budget: {seconds: 5}",
         ["after the last epoch of one", "no more than 1"]),
        ("budget: {views: 600}", "budget: {epochs: 1}", ["grace_epochs is 1, but one trains"]),
        ("batch_size: 20", "batch_size: 80", ["batch_size is 80", "60 images"]),
        ("temperature: {low: 0.1, high: 1.0, log: true}", "budget: {choices: [5]}",
         ["`budget` cannot be searched"]),
    ],
)  # fmt: skip
def test_a_budget_that_cannot_be_is_refused(load, old, new, parts):
    text = VIEWS.replace(old, new)
    assert text != VIEWS
    told = refused(load, text)
    for part in parts:
        assert part in told


def test_a_profile_replaces_epochs_by_a_budget_and_one_budget_by_another(load):
    text = VIEWS.replace("budget: {views: 600}", "epochs: 5") + (
        "profiles:\n  equal: {trial: {epochs: null, budget: {views: 600}}}\n"
        "  both: {trial: {budget: {views: 600}}}\n"
    )
    study = load(text, profile="equal")
    assert study.trial["budget"] == {"views": 600}
    assert "epochs" not in study.trial
    assert "says it again" in refused(load, text, profile="both")
    again = load(text, profile="equal", overrides=["trial.budget={views: 700}"])
    assert again.trial["budget"] == {"views": 700}
    timed = "trial: {epochs: 9, budget: {seconds: 5}}"
    study = load(
        VIEWS.replace("1-2", "0-1") + f"profiles:\n  timed: {{{timed}}}\n", profile="timed"
    )
    assert study.trial["budget"] == {"seconds": 5}


def test_the_plan_tells_the_budget_and_what_cannot_be_reproduced(load):
    told = "\n".join(plan_lines(load(), slots=2))
    assert "budget: 600 views a training; epochs: one 5, four 2, any 2 to 5" in told
    assert "cannot be reproduced" not in told
    assert "time: about" in told
    text = VIEWS.replace("1-2", "0-1").replace("budget: {views", "epochs: 9, budget: {seconds")
    told = "\n".join(plan_lines(load(text), slots=2))
    assert "budget: 10 min 00 s of training each" in told
    assert "a budget of seconds cannot be reproduced" in told


TIMED = VIEWS.replace("1-2", "0-1").replace(
    "budget: {views: 600}", "epochs: 90, budget: {seconds: 5}"
)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("{reduction_factor: 2}", "asha"), ("asha", "asha"), ("median", "median"),
        ("{rule: wilcoxon}", "wilcoxon"),
    ],
)  # fmt: skip
def test_with_seconds_early_stopping_needs_its_grace_written(load, rule, named):
    """A fifth of the limit of 90 epochs would be 18, which no training may reach."""
    given = "early_stopping: {grace_epochs: 1, reduction_factor: 2}"
    told = refused(load, TIMED.replace(given, f"early_stopping: {rule}"))
    assert "s.yaml:12: early_stopping without grace_epochs" in told
    assert "allowed: grace_epochs" in told
    remedy = f"early_stopping: {{rule: {named}, grace_epochs: 5}}"
    assert f"try: {remedy}" in told
    assert told.count("try:") == 1
    assert load(TIMED.replace(given, remedy)).search.pruned.grace_epochs == 5
    assert load(TIMED.replace(given, "early_stopping: none")).search.pruned is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (VIEWS, "one, any: epochs 1, 2, 4 of 5; four: epoch 1 of 2"),
        (TIMED, "epochs 1, 2, 4, 8, 16, 32, 64 of at most 90"),
        (VIEWS.replace("budget: {views: 600}", "epochs: 9"), "epochs 1, 2, 4, 8 of 9"),
        (
            VIEWS.replace("budget: {views: 600}", "epochs: 9").replace(
                "grace_epochs: 1", "rule: median, grace_epochs: 3"
            ),
            "each epoch from 3 of 9",
        ),
    ],
)
def test_the_plan_tells_the_rungs(load, text, told):
    assert f"  may be stopped after {told}" in plan_lines(load(text), slots=2)


def test_a_design_without_a_budget_is_recorded_as_before(load):
    study = load(VIEWS.replace("budget: {views: 600}", "epochs: 5"))
    assert "budget" not in str(study.declared())
    settings = WORKLOAD.complete(
        {"dataset": "digits", "train_limit": 60, "batch_size": 20, "epochs": 7}
    )
    assert work(WORKLOAD, settings)["planned"] == 7
    assert planned_epochs(WORKLOAD, settings) == 7


def test_runs_recorded_before_a_setting_existed_are_kept(load, tmp_path):
    study = load(VIEWS.replace("budget: {views: 600}", "epochs: 5"))
    jobs = confirmation_jobs(study, {arm: {} for arm in study.arms}, tmp_path)
    ledger = Ledger(tmp_path)
    for job in jobs:
        older = {k: v for k, v in job.config.items() if k not in ("budget", "compile")}
        ledger.write(Ending(replace(job, config=older), "finished", ()))
    assert ConfirmSource(jobs, ledger, study.trains).remaining() == 0
    winners = {arm: {} for arm in study.arms}
    assert list(_other_configs(Folder(tmp_path), study, [(study, winners)])) == []
    other = replace(jobs[0], config=jobs[0].config | {"epochs": 6})
    ledger.write(Ending(other, "finished", ()))
    with pytest.raises(StudyError, match=r"1 runs, the first .* made with other settings"):
        ConfirmSource(jobs, ledger, study.trains)
    told = [f"{jobs[0].key}: was run with other settings than the winner's"]
    assert list(_other_configs(Folder(tmp_path), study, [(study, winners)])) == told
    ledger.write(Ending(replace(other, config={"epochs": -1, "no": 1}), "finished", ()))
    assert list(_other_configs(Folder(tmp_path), study, [(study, winners)])) == told
