"""What a training function does wrong has a defined outcome: one row, one clear message."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from study.execution.worker import run_job
from study.records.job import Job
from study.workload import Stopped

DECLARED = {
    "val/error": {"better": "lower"},
    "val/share": {"better": "higher", "unit": "fraction"},
    "test/error": {"better": "lower"},
    "train/loss": {"better": "lower"},
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch) -> Callable[..., Job]:
    """A job of a function with the given body, in a module of its own."""
    made = []

    def build(body: str, *, phase: str = "search", parameters: str = "epochs: int = 3", **changes):
        module = f"trains_{len(made)}_{tmp_path.name.replace('-', '_')}"
        made.append(module)
        lines = [
            f"def train(run, *, {parameters}):",
            textwrap.indent(textwrap.dedent(body), "    "),
        ]
        (tmp_path / f"{module}.py").write_text("import math, os, sys, time\n" + "\n".join(lines))
        fields = {
            "phase": phase,
            "arm": "a",
            "condition": "default",
            "seed": 1,
            "number": 0 if phase == "search" else None,
            "config": {"epochs": 3},
            "folder": str(tmp_path / "study"),
            "data": "",
            "planned": 3,
            "workload": f"{module}:train",
            "beside": str(tmp_path),
            "declared": DECLARED,
            "required": ("val/error",) if phase == "search" else ("test/error",),
        }
        return Job(**(fields | changes))

    return build


def carried_out(job: Job) -> list[dict]:
    found: list[dict] = []
    run_job(job.plain(), found.append)
    return found


def ended(job: Job) -> tuple[str, str]:
    last = carried_out(job)[-1]
    return last["outcome"], last["failure"].strip().splitlines()[-1] if last["failure"] else ""


def epochs(reports: list[dict]) -> list[int]:
    return [record["epoch"] for report in reports for record in report["records"]]


GOOD = """
for epoch in range(1, epochs + 1):
    metrics = {"val/error": 1 / epoch}
    if epoch == epochs and run.read_test:
        metrics["test/error"] = 0.5
    run.report(epoch, metrics)
"""


def test_a_function_that_reports_each_epoch_has_finished(job):
    found = carried_out(job(GOOD))
    assert epochs(found) == [1, 2, 3]
    assert found[-1]["outcome"] == "finished"
    record = found[-1]["records"][-1]
    assert record["metrics"]["val/error"] == 1 / 3
    assert 0 <= record["metrics"]["seconds"] < 5


def test_the_test_split_is_read_in_the_confirmation_only(job):
    searched = {n for r in carried_out(job(GOOD)) for e in r["records"] for n in e["metrics"]}
    assert searched == {"val/error", "seconds"}
    confirmed = carried_out(job(GOOD, phase="confirm"))[-1]["records"]
    assert [("test/error" in record["metrics"]) for record in confirmed] == [False, False, True]


def test_the_function_sees_where_in_the_study_it_is(job):
    body = """
    facts = [run.seed, run.arm, run.condition, run.phase, run.replicate, run.device, run.threads]
    run.folder.joinpath("..", "facts.txt").resolve().write_text(repr(facts))
    run.report(1, {"val/error": 0.0})
    """
    data = job(body)
    carried_out(data)
    text = Path(data.checkpoint).with_name("facts.txt").read_text()
    assert text == repr([1, "a", "default", "search", None, "cpu", 1])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("pass", "returned without reporting any epoch"),
        ("run.report(1, {'val/eror': 1})", "did you mean val/error?"),
        ("run.report(1, {'accuracy': 1})", "add it to `metrics:` in the study file"),
        ("run.report(1, {'train/loss': 1})", "ended without reporting val/error"),
        ("run.report(1, {'val/error': 1}); run.report(1, {'val/error': 1})", "reported twice"),
        ("run.report(2, {'val/error': 1}); run.report(1, {'val/error': 1})", "reported after 2"),
        ("run.report(0, {'val/error': 1})", "epochs count from 1"),
        ("run.report(1.5, {'val/error': 1})", "epoch is 1.5; allowed: a whole number"),
        ("run.report(True, {'val/error': 1})", "epoch is True"),
        ("run.report(1, {'test/error': 1})", "report it only if run.read_test"),
        ("run.report(1, {'val/error': '0.5'})", "val/error is '0.5'; allowed: one number"),
        ("run.report(1, {'val/error': None})", "val/error is None"),
        ("run.report(1, {'val/error': [1, 2]})", r"val/error is [1, 2]"),
        ("run.report(1, {'val/share': 97.5, 'val/error': 1})", "val/share is 97.5, but its unit"),
        ("run.report(1, {'val/share': 97.5})", "val/share is 97.5, but its unit is fraction"),
        ("raise KeyError('of the function')", "KeyError: 'of the function'"),
        ("sys.exit(3)", "the function called sys.exit(3)"),
        ("run.keep('nowhere.pt')", "nowhere.pt, which is no file"),
        ("raise MemoryError", "out of memory"),
    ],
)
def test_a_mistake_is_a_failed_run_with_its_message(job, body: str, said: str):
    outcome, last = ended(job(body))
    assert outcome == "failed"
    assert said in last


def test_a_failure_keeps_the_functions_own_traceback(job):
    (found,) = carried_out(job("values = {}\nvalues['rate']"))
    assert "values['rate']" in found["failure"]
    assert "in train" in found["failure"]


def test_the_test_split_is_read_once(job):
    body = "for e in (1, 2): run.report(e, {'val/error': 1, 'test/error': 1})"
    outcome, last = ended(job(body, phase="confirm"))
    assert outcome == "failed"
    assert "the test split is read once" in last


def test_a_confirmation_without_its_metric_has_failed(job):
    outcome, last = ended(job("run.report(1, {'val/error': 1})", phase="confirm"))
    assert outcome == "failed"
    assert "ended without reporting test/error" in last


@pytest.mark.parametrize("value", ["math.nan", "math.inf", "-math.inf"])
def test_a_figure_that_is_not_finite_is_a_divergence(job, value: str):
    body = f"run.report(1, {{'val/error': 0.25}}); run.report(2, {{'val/error': {value}}})"
    found = carried_out(job(body))
    assert found[-1]["outcome"] == "diverged"
    assert "in epoch 2; last finite metrics: {'val/error': 0.25}" in found[-1]["failure"]
    assert epochs(found) == [1]


def test_numbers_of_other_libraries_are_numbers(job):
    body = """
    import numpy, torch
    run.report(1, {"val/error": numpy.float32(0.5)})
    run.report(2, {"val/error": torch.tensor(0.25)})
    run.report(numpy.int64(3), {"val/error": numpy.array(0.125)})
    """
    found = carried_out(job(body))
    values = [r["metrics"]["val/error"] for report in found for r in report["records"]]
    assert values == [0.5, 0.25, 0.125]
    assert json.loads(json.dumps(found)) == found


def stopping_at(epoch: int, found: list[dict]):
    def report(result: dict) -> None:
        found.append(result)
        if any(record["epoch"] >= epoch for record in result["records"]):
            raise Stopped

    return report


@pytest.mark.parametrize(
    "guard",
    [
        "{}",
        "try:\n        {}\n    except Exception:\n        pass",
        "try:\n        {}\n    except BaseException:\n        pass",
    ],
    ids=["lets it pass", "catches Exception", "swallows everything"],
)
def test_a_stopped_function_stays_stopped_whatever_it_catches(job, guard: str):
    call = "run.report(epoch, {'val/error': 1 / epoch})"
    data = job(f"for epoch in range(1, 10):\n    {guard.format(call)}", decide_at=(2,), planned=9)
    found: list[dict] = []
    with pytest.raises(Stopped):
        run_job(data.plain(), stopping_at(2, found))
    assert epochs(found) == [1, 2]
    assert [report["outcome"] for report in found] == [None]
    assert not Path(data.checkpoint).exists()


RESUMES = """
saved = run.folder / "epoch"
start = int(saved.read_text()) + 1 if saved.exists() else 1
with open(run.folder.parent / "trained", "a") as log:
    for epoch in range(start, epochs + 1):
        log.write(f"{epoch} ")
        log.flush()
        run.report(epoch, {"val/error": 1 / epoch})
        saved.write_text(str(epoch))
"""


class Killed(BaseException):
    """The process dies; nothing after it runs."""


def killed_at(epoch: int):
    def report(result: dict) -> None:
        if any(record["epoch"] == epoch for record in result["records"]):
            raise Killed

    return report


def test_a_function_continues_from_what_it_saved_and_all_epochs_are_reported(job, monkeypatch):
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    data = job(RESUMES, parameters="epochs: int = 6", config={"epochs": 6}, planned=6)
    with pytest.raises(Killed):
        run_job(data.plain(), killed_at(4))
    assert Path(data.checkpoint).exists()
    found = carried_out(data)
    assert epochs(found) == [1, 2, 3, 4, 5, 6]
    assert found[-1]["outcome"] == "finished"
    # Epoch 4 was reported and not saved: trained again, counted once.
    assert Path(data.checkpoint).with_name("trained").read_text().split() == list("1234456")
    assert not Path(data.checkpoint).exists()


RETURNS = f"{RESUMES}        if run.stopping: return\n"
SWALLOWS = RESUMES.replace("run.report", "try: run.report").replace(
    "        saved.write", "        except BaseException: continue\n        saved.write"
)


@pytest.mark.parametrize(
    ("body", "planned", "trained"),
    [
        (RETURNS, 4, "1234"),
        (RETURNS, None, "1234"),
        (RESUMES, 4, "12334"),  # stopped by the report after the next one, which saves nothing
        (SWALLOWS, 4, "123434"),
    ],
)
def test_a_function_that_ends_with_its_study_goes_on_from_what_it_saved(
    job, monkeypatch, body: str, planned: int | None, trained: str
):
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    config = {"epochs": 4} if planned else {"rounds": 4}
    if not planned:
        body = body.replace("epochs", "rounds")
    data = job(body, parameters=f"{next(iter(config))}: int = 4", config=config, planned=planned)
    found: list[dict] = []
    with pytest.raises(Stopped):
        run_job(data.plain(), stopping_study(data, 2, found))
    assert {report["outcome"] for report in found} == {None}
    Path(data.stop_file).unlink()
    found = carried_out(data)
    assert epochs(found) == [1, 2, 3, 4]
    assert found[-1]["outcome"] == "finished"
    assert Path(data.checkpoint).with_name("trained").read_text().split() == list(trained)
    assert not Path(data.checkpoint).exists()


@pytest.mark.parametrize("after", [2, 3])
def test_a_training_that_is_done_when_its_study_stops_has_finished(job, tmp_path, after: int):
    """Asked before the report of the last epoch, or between the last two."""
    asked = tmp_path / "study" / "ray" / "stopping"
    asked.parent.mkdir(parents=True)
    body = f"""
    import pathlib
    for epoch in range(1, epochs + 1):
        if epoch == {after}: pathlib.Path({str(asked)!r}).touch()
        run.report(epoch, {{"val/error": 1 / epoch}})
        if epoch == 3 and run.stopping: return
    """
    assert ended(job(body)) == ("finished", "")


def stopping_study(job: Job, epoch: int, found: list[dict]):
    """The study is asked to stop as an epoch is reported."""

    def report(result: dict) -> None:
        found.append(result)
        if any(record["epoch"] == epoch for record in result["records"]):
            Path(job.stop_file).parent.mkdir(parents=True)
            Path(job.stop_file).touch()

    return report


def test_what_was_reported_first_counts(job, monkeypatch):
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    body = """
    again = (run.folder / "begun").exists()
    (run.folder / "begun").touch()
    for epoch in range(1, epochs + 1):
        run.report(epoch, {"val/error": 10.0 * again + epoch})
    """
    data = job(body)
    with pytest.raises(Killed):
        run_job(data.plain(), killed_at(2))
    values = [r["metrics"]["val/error"] for report in carried_out(data) for r in report["records"]]
    assert values == [1.0, 2.0, 13.0]


def test_a_function_that_saves_before_it_reports_loses_no_epoch(job, monkeypatch):
    """Killed in between, it would continue after an epoch that nobody has heard of."""
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    body = """
    saved = run.folder / "epoch"
    start = int(saved.read_text()) + 1 if saved.exists() else 1
    for epoch in range(start, epochs + 1):
        saved.write_text(str(epoch))
        if epoch == 3 and start == 1 and not (run.folder.parent / "died").exists():
            (run.folder.parent / "died").touch()
            raise KeyboardInterrupt
        run.report(epoch, {"val/error": 1 / epoch})
    """
    data = job(body, parameters="epochs: int = 5", config={"epochs": 5}, planned=5)
    with pytest.raises(KeyboardInterrupt):
        run_job(data.plain(), lambda result: None)
    assert (Path(data.checkpoint) / "epoch").read_text() == "3"
    assert epochs(carried_out(data)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("damage", ["torn", "garbage", "another job's", "gone"])
def test_damaged_records_cost_epochs_never_the_run(job, monkeypatch, damage: str):
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    data = job(RESUMES)
    with pytest.raises(Killed):
        run_job(data.plain(), killed_at(2))
    file = Path(data.checkpoint) / "records.jsonl"
    text = file.read_text()
    file.write_text(
        {
            "torn": text[:-9],
            "garbage": "\x00" * 40,
            "another job's": text.replace("search/a/0000", "search/b/0000"),
            "gone": "",
        }[damage]
    )
    found = carried_out(data)
    assert epochs(found) == [1, 2, 3]
    assert found[-1]["outcome"] == "finished"


def test_a_training_that_had_ended_before_the_crash_ends_again(job, monkeypatch):
    monkeypatch.setattr("study.execution.worker.FLUSH_EVERY_S", 0.0)
    data = job(RESUMES)

    def dies_at_the_end(result: dict) -> None:
        if result["outcome"]:
            raise Killed

    with pytest.raises(Killed):
        run_job(data.plain(), dies_at_the_end)
    found = carried_out(data)
    assert epochs(found) == [1, 2, 3]
    assert found[-1]["outcome"] == "finished"


def test_kept_files_stay_when_the_checkpoint_goes(job, tmp_path):
    body = """
    weights = run.folder / "weights.txt"
    weights.write_text("learned")
    run.report(1, {"val/error": 1.0})
    run.keep(weights)
    """
    data = job(body)
    assert ended(data)[0] == "finished"
    assert Path(data.kept, "weights.txt").read_text() == "learned"
    assert not Path(data.checkpoint).exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_may_work_but_not_report(job):
    body = """
    child = os.fork()
    if child == 0:
        try:
            run.report(1, {"val/error": 0.0})
        except ValueError as error:
            os._exit(7 if "forked process" in str(error) else 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    run.report(1, {"val/error": float(os.waitstatus_to_exitcode(status))})
    """
    found = carried_out(job(body))
    assert found[-1]["records"][-1]["metrics"]["val/error"] == 7.0


def test_a_function_may_print_megabytes(job, capfd):
    body = "print('x' * 3_000_000)\nrun.report(1, {'val/error': 1.0})"
    assert ended(job(body))[0] == "finished"
    assert len(capfd.readouterr().out) >= 3_000_000


def test_a_module_that_has_gone_is_a_failed_run(job, tmp_path):
    data = job(GOOD)
    (tmp_path / f"{data.workload.partition(':')[0]}.py").unlink()
    outcome, last = ended(data)
    assert outcome == "failed"
    assert "there is no module" in last
