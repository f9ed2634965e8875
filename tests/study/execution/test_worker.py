"""Does a worker report everything once, survive its checkpoint and tell how it ended?"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from contrastive import workload
from contrastive.training import loop
from contrastive.workload import WORKLOAD
from study.execution import worker
from study.execution.worker import run_job
from study.records.job import Job, job_from, record_from
from study.records.ledger import Ending, Ledger
from study.records.rows import result_rows
from study.workload import Stopped

TINY = {"dataset": "digits", "train_limit": 60, "batch_size": 20, "epochs": 3}


def job(tmp_path: Path, phase: str = "confirm", decide_at=(), **changes) -> Job:
    config = WORKLOAD.complete(TINY | changes)
    number = 0 if phase == "search" else None
    return Job(phase, "a", "clean", 1, number, config, str(tmp_path / "c"),
               data="", decide_at=tuple(decide_at))  # fmt: skip


def reports(data: Job) -> list[dict]:
    found = []
    run_job(data.plain(), found.append)
    return found


def epochs(found: list[dict]) -> list[int]:
    return [record["epoch"] for report in found for record in report["records"]]


def test_all_epochs_are_reported_once_and_the_last_report_has_the_outcome(tmp_path):
    found = reports(job(tmp_path))
    assert epochs(found) == [0, 1, 2, 3]
    assert [report["outcome"] for report in found] == [None] * (len(found) - 1) + ["finished"]
    final = record_from(found[-1]["records"][-1])
    assert final.counts["test/knn_top1"][1] == 300
    assert final.metrics["test/knn_top1"] == final.counts["test/knn_top1"][0] / 300


def test_a_report_ends_at_every_epoch_where_the_driver_decides(tmp_path):
    found = reports(job(tmp_path, "search", decide_at=[1, 2]))
    assert [[r["epoch"] for r in report["records"]] for report in found] == [[0, 1], [2], [3]]


def test_the_search_never_reads_the_test_split(tmp_path):
    found = reports(job(tmp_path, "search"))
    names = {name for report in found for r in report["records"] for name in r["metrics"]}
    assert "val/knn_top1" in names
    assert not any(name.startswith("test/") for name in names)


def test_divergence_is_an_outcome_with_its_epoch(tmp_path):
    found = reports(job(tmp_path, learning_rate=1e30))
    assert found[-1]["outcome"] == "diverged"
    assert "epoch 1" in found[-1]["failure"]
    assert epochs(found) == [0]


def test_an_exception_is_an_outcome_with_its_traceback(tmp_path, monkeypatch):
    def broken(*args, **options):
        raise ZeroDivisionError("of the arm")

    monkeypatch.setattr(loop, "train", broken)
    found = reports(job(tmp_path))
    assert found[-1]["outcome"] == "failed"
    assert "ZeroDivisionError: of the arm" in found[-1]["failure"]
    assert "test_worker.py" in found[-1]["failure"]


class Killed(BaseException):
    pass


def plain_values(found: list[dict]) -> list[dict]:
    return [
        {name: v for name, v in record["metrics"].items() if name != "seconds"}
        for report in found
        for record in report["records"]
    ]


def killed_after_two(folder: Path, monkeypatch) -> Job:
    """A job whose process dies as it reports epoch 2, with a checkpoint of it."""
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(worker, "FLUSH_EVERY_S", 0.0)
    data = job(folder)
    alive = loop.train

    def dies(*args, **options):
        for record in alive(*args, **options):
            if record.epoch == 3:
                raise Killed
            yield record

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", dies)
        with pytest.raises(Killed):
            reports(data)
    assert {file.name for file in Path(data.checkpoint).iterdir()} == {"records.jsonl", "state.pt"}
    return data


def noted(monkeypatch) -> list[int]:
    """The epochs that are trained from now on."""
    trained: list[int] = []
    original = loop.train
    monkeypatch.setattr(
        loop,
        "train",
        lambda *a, **o: (trained.append(r.epoch) or r for r in original(*a, **o)),
    )
    return trained


def test_a_killed_job_goes_on_from_its_checkpoint_and_reports_the_same(tmp_path, monkeypatch):
    whole = reports(job(tmp_path / "whole"))
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(worker, "FLUSH_EVERY_S", 0.0)
    interrupted = job(tmp_path / "killed")

    def dies(report):
        if any(record["epoch"] == 2 for record in report["records"]):
            raise Killed

    with pytest.raises(Killed):
        run_job(interrupted.plain(), dies)
    assert Path(interrupted.checkpoint).exists()
    trained = noted(monkeypatch)
    again = reports(interrupted)
    assert plain_values(again) == plain_values(whole)
    assert trained == [2, 3]  # an epoch is saved once it has been reported
    assert not Path(interrupted.checkpoint).exists()


def test_a_job_that_ends_with_its_study_saves_its_last_epoch_first(tmp_path, monkeypatch):
    """However recent its last checkpoint is."""
    whole = reports(job(tmp_path / "whole"))
    monkeypatch.setattr(worker, "FLUSH_EVERY_S", 0.0)
    data, told = job(tmp_path), []
    asked = Path(data.stop_file)

    def stops(report):
        told.append(report)
        if any(record["epoch"] == 1 for record in report["records"]):
            asked.parent.mkdir(parents=True)
            asked.touch()

    with pytest.raises(Stopped):
        run_job(data.plain(), stops)
    assert [report["outcome"] for report in told] == [None, None]
    saved = torch.load(Path(data.checkpoint) / "state.pt", weights_only=True)
    assert saved["state"]["epoch"] == 1
    asked.unlink()
    trained = noted(monkeypatch)
    again = reports(data)
    assert plain_values(again) == plain_values(whole)
    assert trained == [2, 3]
    assert not Path(data.checkpoint).exists()


@pytest.mark.parametrize("dies_at", [2, 3])
def test_a_killed_job_has_the_same_test_curve_in_one_reading(tmp_path, monkeypatch, dies_at: int):
    early = {"test_epochs": {"test/knn_top1": [1, 2]}}
    monkeypatch.setattr(worker, "FLUSH_EVERY_S", 0.0)

    def ending(data: Job) -> Ending:
        found = [record_from(r) for report in reports(data) for r in report["records"]]
        return Ending(data, "finished", tuple(found))

    whole = ending(dataclasses.replace(job(tmp_path / "whole"), **early))
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", 0.0)
    interrupted = dataclasses.replace(job(tmp_path / "killed"), **early)

    def dies(report):
        if any(record["epoch"] == dies_at for record in report["records"]):
            raise Killed

    with pytest.raises(Killed):
        run_job(interrupted.plain(), dies)
    assert Path(interrupted.checkpoint, "state.pt").exists()
    again = ending(interrupted)
    assert list(result_rows([again])) == list(result_rows([whole]))
    curve = [(row[4], row[8]) for row in result_rows([again]) if row[5] == "test/knn_top1"]
    assert curve == [("", 300), (1, 300), (2, 300)]
    assert again.test_reads == 1
    left = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert left == []

    kept = Ledger(tmp_path)
    kept.write(again)
    assert kept.read(interrupted.key) == again


@pytest.mark.parametrize(
    ("damage", "trained"),
    [
        ("none", [3]),
        ("a torn last line", [3]),  # the saved state holds its records too
        ("no records", [0, 1, 2, 3]),
        ("a line that is no record", [0, 1, 2, 3]),
        ("other settings", [0, 1, 2, 3]),
        *(
            pytest.param(damage, [0, 1, 2, 3], marks=pytest.mark.slow)
            for damage in ("zeros", "another job's", "a folder in its place")
        ),
    ],
)
def test_damaged_records_cost_epochs_only(tmp_path, monkeypatch, damage: str, trained: list[int]):
    whole = reports(job(tmp_path / "whole"))
    data = killed_after_two(tmp_path / "killed", monkeypatch)
    file = Path(data.checkpoint) / "records.jsonl"
    header, *lines = file.read_text().splitlines(keepends=True)
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2]
    if damage == "a torn last line":
        file.write_text("".join([header, *lines[:-1], lines[-1][: len(lines[-1]) // 2]]))
    elif damage == "no records":
        file.write_text(header)
    elif damage == "zeros":
        file.write_bytes(b"\0" * 999)
    elif damage == "a line that is no record":
        file.write_text("".join([header, '{"epoch": 0}\n', *lines[1:]]))
    elif damage == "another job's":
        other = json.loads(header) | {"job": "confirm/b/clean/0001"}
        file.write_text("".join([json.dumps(other) + "\n", *lines]))
    elif damage == "other settings":
        other = json.loads(header) | {"config": data.config | {"temperature": 0.2}}
        file.write_text("".join([json.dumps(other) + "\n", *lines]))
    elif damage == "a folder in its place":
        file.unlink()
        file.mkdir()
    again = noted(monkeypatch)
    found = reports(data)
    assert again == trained
    assert epochs(found) == [0, 1, 2, 3]
    assert found[-1]["outcome"] == "finished"
    assert plain_values(found) == plain_values(whole)
    assert not Path(data.checkpoint).exists()


def test_jobs_survive_a_round_trip_through_plain_data(tmp_path):
    data = job(tmp_path, "search", decide_at=[1, 2])
    assert job_from(data.plain()) == data


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (KeyError("memory"), False),
    ],
)
def test_the_driver_is_told_whether_memory_was_the_cause(tmp_path, monkeypatch, error, memory):
    def greedy(*args, **options):
        raise error

    monkeypatch.setattr(loop, "train", greedy)
    (found,) = reports(job(tmp_path))
    assert found["outcome"] == "failed"
    assert found["out_of_memory"] == memory
    assert ("out of" in found["failure"].splitlines()[-1]) >= memory
    assert ("2.50 GiB more asked for" in found["failure"]) == ("2.50" in str(error))


@pytest.mark.parametrize(("retried", "kept"), [("", True), ("out of memory before", False)])
def test_a_checkpoint_is_kept_for_a_second_run_only(tmp_path, monkeypatch, retried: str, kept):
    first = dataclasses.replace(job(tmp_path), gpus=0.5, retried=retried)
    real = loop.train
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", -1.0)

    def greedy(*args, **options):
        for record in real(*args, **options):
            yield record
            if record.epoch == 2:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(loop, "train", greedy)
    assert reports(first)[-1]["outcome"] == "failed"
    assert Path(first.checkpoint).exists() == kept
