"""Which epochs do claims on the test split need, and is nothing else kept or read?"""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import execute_here

from study.design import epochs_on_test
from study.errors import SpecError
from study.phases.confirmation import confirmation_jobs
from study.phases.search import SearchSource
from study.planning.dry_run import _split_lines
from study.records.ledger import Ledger
from study.spec.load import load_study

STUDY = """\
name: t
trial: {dataset: digits, train_limit: 60, batch_size: 20, epochs: 6, eval_every: 2}
arms:
  a: {loss: contrastive}
  b: {loss: debiased_pos}
  c: {loss: debiased_neg}
conditions: {clean: {}, noisy: {blur_prob: 0.9}}
search:
  trials_per_arm: 1
  under: clean
  space: {temperature: {low: 0.1, high: 1.0}}
confirm: {seeds: 2}
claims:
  - {id: A, better: b, than: a, metric: "auc(test/knn_top1, epochs 2-4)"}
  - {id: B, less_hurt: b, than: c, from: clean, to: noisy,
     metric: "auc(test/linear_top1, epochs 0-2)"}
  - {id: C, better: b, than: a, metric: "auc(val/knn_top1, epochs 2-4)"}
  - {id: D, better: b, than: a, metric: test/knn_top1}
"""
KNN, LINEAR = "test/knn_top1", "test/linear_top1"


@pytest.fixture
def load(tmp_path: Path):
    def loaded(text: str = STUDY):
        file = tmp_path / "s.yaml"
        file.write_text(text)
        return load_study(file)

    return loaded


def refused(load, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load(text)
    return str(caught.value)


def test_the_evaluated_epochs_of_the_windows_are_kept_where_a_claim_is_about_them(load):
    assert epochs_on_test(load()) == {
        ("a", "clean"): {KNN: [2, 4]},
        ("b", "clean"): {KNN: [2, 4], LINEAR: [0, 2]},
        ("c", "clean"): {LINEAR: [0, 2]},
        ("b", "noisy"): {LINEAR: [0, 2]},
        ("c", "noisy"): {LINEAR: [0, 2]},
    }


def test_only_the_confirmation_is_told_of_them(load, tmp_path):
    study = load()
    jobs = confirmation_jobs(study, {arm: {} for arm in study.arms}, tmp_path)
    told = {(job.arm, job.condition): job.test_epochs for job in jobs}
    assert told.pop(("a", "noisy")) == {}
    assert told == epochs_on_test(study)
    source = SearchSource(study, tmp_path, Ledger(tmp_path), slots=1)
    execute_here(source, monitors=[watch := Watch()])
    assert watch.jobs
    assert all(job.test_epochs == {} for job in watch.jobs)


class Watch:
    """A monitor that notes the jobs."""

    def __init__(self) -> None:
        self.jobs: list = []

    def on_start(self, job) -> None:
        self.jobs.append(job)

    def on_records(self, job, records) -> None:
        assert not any(name.startswith("test/") for r in records for name in r.metrics)

    def on_end(self, ending) -> None: ...


def test_the_plan_says_what_is_kept_and_which_claims_are_about_the_validation_split(load):
    lines = list(_split_lines(load()))
    assert lines[0] == (
        "note: C: This is a claim about the validation split, on which the winners were selected."
    )
    assert [line.partition(" is measured after the last epoch")[0] for line in lines[1:]] == [
        f"note: {KNN} at epochs 2, 4",
        f"note: {LINEAR} at epochs 0, 2",
    ]


def test_without_such_claims_nothing_is_kept_or_said(load):
    text = (
        STUDY.partition("  - {id: A")[0]
        + "  - {id: D, better: b, than: a, metric: test/knn_top1}\n"
    )
    assert epochs_on_test(load(text)) == {}
    assert list(_split_lines(load(text))) == []


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("auc(test/knn_top1, epochs 2-4)", "auc(test/knn_top1, epochs 1-4)",
         ["s.yaml:14: ", "eval_every: 2 measures nothing", "multiples of 2"]),
        ("auc(test/knn_top1, epochs 2-4)", "auc(test/knn_top1, epochs 2-8)",
         ["s.yaml:14: ", "epoch 8 is after the last"]),
        ("auc(test/knn_top1, epochs 2-4)", "auc(test/alignment, epochs 2-4)",
         ["s.yaml:14: test/alignment is read once per run, after the last epoch, and has no curve",
          "allowed: windows of test/knn_top1, test/linear_top1, test/linear_top5"]),
    ],
)  # fmt: skip
def test_a_window_without_figures_is_refused(load, old, new, parts):
    told = refused(load, STUDY.replace(old, new))
    for part in parts:
        assert part in told


def test_a_function_has_no_curve_on_the_test_split(load, tmp_path):
    (tmp_path / "mine_early.py").write_text(
        "def train(run, *, width: int = 4, epochs: int = 3): ..."
    )
    told = refused(load, """\
name: own
workload: mine_early:train
metrics: {val/error: {better: lower}, test/error: {better: lower}}
arms: {narrow: {width: 4}, wide: {width: 8}}
confirm: {seeds: 8}
claims:
  - {id: W, better: wide, than: narrow, metric: "auc(test/error, epochs 1-2)"}
""")  # fmt: skip
    assert (
        "s.yaml:7: test/error is read once per run, after the last epoch, and has no curve" in told
    )
    assert "with the workload mine_early:train, windows of metrics that it reports at every" in told
    assert "try: auc(val/error, epochs 1-2)" in told
