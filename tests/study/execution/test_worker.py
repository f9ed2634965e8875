"""Does a worker report everything once, survive its checkpoint and tell how it ended?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from contrastive.config import TrainConfig, settings
from study.execution import worker
from study.execution.worker import run_job
from study.records.job import Job, job_from, record_from

TINY = {"dataset": "digits", "train_limit": 60, "batch_size": 20, "epochs": 3}


def job(tmp_path: Path, phase: str = "confirm", decide_at=(), **changes) -> Job:
    config = settings(TrainConfig(**(TINY | changes)))
    number = 0 if phase == "search" else None
    return Job(phase, "a", "clean", 1, number, config, str(tmp_path / "c" / "x.pt"),
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

    monkeypatch.setattr(worker, "train", broken)
    found = reports(job(tmp_path))
    assert found[-1]["outcome"] == "failed"
    assert "ZeroDivisionError: of the arm" in found[-1]["failure"]
    assert "test_trial.py" in found[-1]["failure"]


class Killed(BaseException):
    pass


def plain_values(found: list[dict]) -> list[dict]:
    return [
        {name: v for name, v in record["metrics"].items() if name != "seconds"}
        for report in found
        for record in report["records"]
    ]


def test_a_killed_job_goes_on_from_its_checkpoint_and_reports_the_same(tmp_path, monkeypatch):
    whole = reports(job(tmp_path / "whole"))
    monkeypatch.setattr(worker, "CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(worker, "FLUSH_EVERY_S", 0.0)
    interrupted = job(tmp_path / "killed")

    def dies(report):
        if any(record["epoch"] == 2 for record in report["records"]):
            raise Killed

    with pytest.raises(Killed):
        run_job(interrupted.plain(), dies)
    assert Path(interrupted.checkpoint).exists()
    trained = []
    original = worker.train
    monkeypatch.setattr(
        worker,
        "train",
        lambda *a, **o: (trained.append(r.epoch) or r for r in original(*a, **o)),
    )
    again = reports(interrupted)
    assert plain_values(again) == plain_values(whole)
    assert trained == [3]
    assert not Path(interrupted.checkpoint).exists()


@pytest.mark.parametrize(
    "damage", ["truncated", "garbage", "other job", "other settings", "a pickle"]
)
def test_a_damaged_checkpoint_costs_its_epochs_only(tmp_path, damage: str):
    data = job(tmp_path)
    file = Path(data.checkpoint)
    file.parent.mkdir(parents=True)
    if damage == "other job":
        torch.save(
            {"job": "search/b/0001", "config": data.config, "state": {}, "records": []}, file
        )
    elif damage == "other settings":
        other = data.config | {"temperature": 0.2}
        torch.save({"job": data.key, "config": other, "state": {}, "records": []}, file)
    elif damage == "a pickle":
        torch.save(
            {"job": data.key, "config": data.config, "state": Path("x"), "records": []}, file
        )
    else:
        torch.save({"job": data.key, "config": data.config, "state": {}, "records": []}, file)
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"\x00" * 99)
    found = reports(data)
    assert epochs(found) == [0, 1, 2, 3]
    assert found[-1]["outcome"] == "finished"


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

    monkeypatch.setattr(worker, "train", greedy)
    (found,) = reports(job(tmp_path))
    assert found["outcome"] == "failed"
    assert found["out_of_memory"] == memory
    assert ("out of" in found["failure"].splitlines()[-1]) >= memory
    assert ("2.50 GiB more asked for" in found["failure"]) == ("2.50" in str(error))


@pytest.mark.parametrize(("retried", "kept"), [("", True), ("out of memory before", False)])
def test_a_checkpoint_is_kept_for_a_second_run_only(tmp_path, monkeypatch, retried: str, kept):
    first = dataclasses.replace(job(tmp_path), gpus=0.5, retried=retried)
    real = worker.train
    monkeypatch.setattr(worker, "CHECKPOINT_EVERY_S", -1.0)

    def greedy(*args, **options):
        for record in real(*args, **options):
            yield record
            if record.epoch == 2:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(worker, "train", greedy)
    assert reports(first)[-1]["outcome"] == "failed"
    assert Path(first.checkpoint).exists() == kept
