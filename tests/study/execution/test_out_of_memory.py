"""Is a job whose memory ran out run again with more room, and told about once?

The trainings are real ones on the CPU that raise what PyTorch raises when a card is full, one after
the other in this process. Under Ray, several at once, it is in `test_bench.py`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import optuna
import pytest
from in_process import execute_here

from contrastive.workload import WORKLOAD
from study.design.study import Study
from study.phases.confirmation import ConfirmSource
from study.phases.search import SearchSource
from study.records.job import Job, work
from study.records.ledger import Ending, Ledger
from study.records.rows import RUN_COLUMNS, run_row
from study.spec.find_workload import resolved

CONFIG = {"dataset": "digits", "train_limit": 100, "batch_size": 20, "epochs": 3}


def job(folder: Path, arm: str, *, phase: str = "confirm", number: int | None = None) -> Job:
    return Job(
        phase=phase, arm=arm, condition="clean", seed=1, number=number, folder=str(folder),
        **work(WORKLOAD, WORKLOAD.complete(CONFIG)),
    )  # fmt: skip


class Greedy:
    """Work that runs out of memory in epoch 2 of one job, unless its share is large enough.

    Args:
        folder: holds a line per start of a job, `key share`, and per epoch that it trained.
        doomed: part of the job's key.
        enough: share of the GPU with which it gets through.
        times: it runs out so often at most.
        save: keep a checkpoint of every epoch.
    """

    def __init__(
        self, folder: Path, doomed: str, *, enough: float, times: int = 9, save: bool = False
    ) -> None:
        self.starts, self.epochs = folder / "starts", folder / "epochs"
        self.doomed, self.enough, self.times, self.save = doomed, enough, times, save

    def work(self):
        """A function that another process can be sent."""
        starts, epochs = str(self.starts), str(self.epochs)
        doomed, enough, times, save = self.doomed, self.enough, self.times, self.save

        def greedy(data, report, *, threads: int = 1) -> None:
            import torch

            from contrastive import workload
            from contrastive.training import loop
            from study.execution import worker
            from study.records.job import job_from

            key = job_from(dict(data)).key
            with open(starts, "a") as log:
                log.write(f"{key} {data['gpus']}\n")
            with open(starts) as log:
                before = sum(line.startswith(f"{key} ") for line in log)
            real, every = loop.train, workload.CHECKPOINT_EVERY_S

            def train(config, seed, **options):
                for record in real(config, seed, **options):
                    with open(epochs, "a") as log:
                        log.write(f"{key} {record.epoch}\n")
                    small = data["gpus"] < enough and before <= times
                    if doomed in key and record.epoch == 2 and small:
                        raise torch.cuda.OutOfMemoryError(
                            "CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total "
                            "capacity of 79.10 GiB of which 1.00 GiB is free."
                        )
                    yield record

            loop.train = train
            workload.CHECKPOINT_EVERY_S = -1.0 if save else every
            try:
                worker.run_job(data, report, threads=threads)
            finally:
                loop.train, workload.CHECKPOINT_EVERY_S = real, every

        return greedy

    def shares(self, key: str) -> list[float]:
        """With which shares a job was started, in order."""
        lines = [line.split() for line in self.starts.read_text().splitlines()]
        return [float(share) for found, share in lines if found == key]

    def trained(self, key: str) -> list[int]:
        """The epochs that a job trained, in order."""
        lines = [line.split() for line in self.epochs.read_text().splitlines()]
        return [int(epoch) for found, epoch in lines if found == key]


class Listed:
    """A source that hands out given jobs and notes everything; a monitor, too."""

    def __init__(self, jobs: list[Job]) -> None:
        self.waiting, self.started = list(jobs), []
        self.epochs: dict[str, list[int]] = {j.key: [] for j in jobs}
        self.endings: dict[str, Ending] = {}

    def remaining(self) -> int:
        return len(self.waiting)

    def next(self) -> Job | None:
        return self.waiting.pop(0) if self.waiting else None

    def on_start(self, job: Job) -> None:
        self.started.append(job.key)

    def on_records(self, job: Job, records) -> bool:
        return False

    def on_end(self, ending: Ending) -> None:
        assert ending.job.key not in self.endings
        self.endings[ending.job.key] = ending


class Noting(Listed):
    """A monitor that notes the epochs."""

    def on_records(self, job: Job, records) -> None:
        self.epochs.setdefault(job.key, []).extend(record.epoch for record in records)


def curves(ending: Ending) -> list[dict[str, float]]:
    return [{k: v for k, v in r.metrics.items() if k != "seconds"} for r in ending.records]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> list[dict[str, float]]:
    """What the jobs give when nothing happens; they have one configuration and seed."""
    source = Listed([job(tmp_path_factory.mktemp("alone"), "a")])
    execute_here(source)
    (ending,) = source.endings.values()
    return curves(ending)


def left(folder: Path) -> list[Path]:
    """Files of checkpoints."""
    return [file for file in (folder / "checkpoints").rglob("*") if file.is_file()]


def run_here(source, greedy: Greedy, gpus: float) -> Noting:
    """One job after the other; shares are told, not set aside."""
    noting = Noting([])
    execute_here(source, monitors=[noting], work=greedy.work(), gpus=gpus)
    return noting


def check_retried(jobs, greedy: Greedy, source: Listed, told: Noting, gpus, then, alone) -> None:
    """The second job was run twice, the others once, and nobody else noticed."""
    doomed = jobs[1].key
    assert greedy.shares(doomed) == [gpus, then]
    assert all(greedy.shares(j.key) == [gpus] for j in jobs if j.key != doomed)
    assert {e.outcome for e in source.endings.values()} == {"finished"}
    assert len(source.endings) == len(jobs)
    assert all(curves(ending) == alone for ending in source.endings.values())
    # Monitors hear of one job that took longer.
    assert sorted(told.started) == sorted(j.key for j in jobs)
    assert all(epochs == [0, 1, 2, 3] for epochs in told.epochs.values())
    assert len(told.endings) == len(jobs)
    again = source.endings[doomed].job
    assert (again.gpus, again.retried) == (then, f"out of memory with {gpus} of a GPU")
    assert source.endings[jobs[0].key].job.retried == ""


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "then"), [(0.25, 0.5), (0.5, 1.0), (0.6, 1.0)])
def test_a_job_is_run_again_with_twice_its_share_and_ends_as_if_nothing_had_happened(
    tmp_path, alone, gpus: float, then: float
):
    jobs = [job(tmp_path, arm) for arm in "abc"]
    greedy, source = Greedy(tmp_path, "confirm/b/", enough=then), Listed(jobs)
    told = run_here(source, greedy, gpus)
    check_retried(jobs, greedy, source, told, gpus, then, alone)


@pytest.mark.slow
def test_the_second_time_is_a_failed_row_that_says_what_was_needed(tmp_path, alone):
    jobs = [job(tmp_path, arm) for arm in "abc"]
    greedy = Greedy(tmp_path, "confirm/a/", enough=2.0)
    source = Listed(jobs)
    told = run_here(source, greedy, 0.25)
    assert greedy.shares(jobs[0].key) == [0.25, 0.5]
    failed = source.endings[jobs[0].key]
    assert failed.outcome == "failed"
    assert "Traceback" in failed.failure
    last = failed.failure.splitlines()[-1]
    assert last == (
        "out of GPU memory after 0.0 GiB reserved and 9.00 GiB more asked for with batch_size 20 "
        "and 0.5 of a GPU, the second time (out of memory with 0.25 of a GPU before); try: fewer "
        "trainings per card (a larger resources.gpus) or a smaller batch_size"
    )
    assert told.epochs[jobs[0].key] == [0, 1]
    others = [source.endings[j.key] for j in jobs[1:]]
    assert all(e.outcome == "finished" and curves(e) == alone for e in others)
    assert left(tmp_path) == []


def test_a_job_with_the_whole_card_is_run_once_more_as_it_was(tmp_path, alone):
    """What was in its way may be gone: a stranger's process, the job before it."""
    jobs = [job(tmp_path, arm) for arm in "ab"]
    greedy = Greedy(tmp_path, "confirm/b/", enough=2.0, times=1)
    source = Listed(jobs)
    run_here(source, greedy, 1.0)
    assert greedy.shares(jobs[1].key) == [1.0, 1.0]
    assert source.endings[jobs[1].key].outcome == "finished"
    assert curves(source.endings[jobs[1].key]) == alone


def test_it_goes_on_from_its_checkpoint(tmp_path, alone):
    one = job(tmp_path, "a")
    greedy = Greedy(tmp_path, "confirm/a/", enough=1.0, save=True)
    source = Listed([one])
    told = run_here(source, greedy, 0.5)
    assert greedy.trained(one.key) == [0, 1, 2, 2, 3]
    assert told.epochs[one.key] == [0, 1, 2, 3]
    assert curves(source.endings[one.key]) == alone
    assert left(tmp_path) == []


def test_without_a_gpu_there_is_no_more_room_to_give(tmp_path):
    jobs = [job(tmp_path, "a")]

    def greedy(data, report, *, threads: int = 1) -> None:
        from contrastive.training import loop
        from study.execution import worker

        def train(*args, **options):
            raise MemoryError

        real, loop.train = loop.train, train
        try:
            worker.run_job(data, report, threads=threads)
        finally:
            loop.train = real

    source = Listed(jobs)
    execute_here(source, work=greedy)
    ending = source.endings[jobs[0].key]
    assert ending.outcome == "failed"
    assert ending.failure.endswith("out of memory with batch_size 20")
    assert ending.job.retried == ""


def study() -> Study:
    return resolved(
        {
            "name": "m",
            "trial": CONFIG,
            "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos"}},
            "search": {
                "trials_per_arm": 3,
                "space": {"temperature": {"low": 0.1, "high": 1.0}},
                "early_stopping": {"grace_epochs": 1, "reduction_factor": 3},
            },
            "confirm": {"seeds": 2},
        }
    )


def searched(folder: Path, greedy: Greedy, gpus: float) -> tuple[SearchSource, list[Ending]]:
    folder.mkdir()
    ledger = Ledger(folder)
    source = SearchSource(study(), folder, ledger, slots=2)
    run_here(source, greedy, gpus)
    return source, list(ledger.all("search"))


@pytest.mark.slow
def test_a_search_decides_the_same_and_optuna_is_told_once(tmp_path):
    calm, expected = searched(tmp_path / "calm", Greedy(tmp_path, "nobody", enough=0), 0.5)
    greedy = Greedy(tmp_path, "search/b/0000", enough=1.0)
    source, found = searched(tmp_path / "greedy", greedy, 0.5)
    assert greedy.shares("search/b/0000")[-2:] == [0.5, 1.0]
    assert [(e.job.key, e.job.drawn, e.outcome, curves(e)) for e in found] == [
        (e.job.key, e.job.drawn, e.outcome, curves(e)) for e in expected
    ]
    assert source.winners() == calm.winners()
    trials = [
        optuna.load_study(
            study_name="m/b", storage=f"sqlite:///{tmp_path / n / 'search.db'}"
        ).trials
        for n in ("calm", "greedy")
    ]
    assert [(t.state, t.params, t.intermediate_values) for t in trials[0]] == [
        (t.state, t.params, t.intermediate_values) for t in trials[1]
    ]
    (retried,) = [e.job for e in found if e.job.retried]
    assert (retried.key, retried.gpus) == ("search/b/0000", 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["recheck", "confirm"])
def test_the_other_phases_alike(tmp_path, alone, phase: str):
    jobs = [job(tmp_path, arm, phase=phase, number=0) for arm in "ab"]
    greedy = Greedy(tmp_path, f"{phase}/a/", enough=2.0)
    ledger = Ledger(tmp_path)
    run_here(ConfirmSource(jobs, ledger, WORKLOAD), greedy, 0.5)
    assert greedy.shares(jobs[0].key) == [0.5, 1.0]
    a, b = (ledger.read(j.key) for j in jobs)
    assert (a.outcome, a.epochs, a.job.gpus) == ("failed", 1, 1.0)
    if phase == "recheck":  # it does not read the test split
        alone = [{k: v for k, v in m.items() if not k.startswith("test/")} for m in alone]
    assert (b.outcome, curves(b)) == ("finished", alone)
    row = dict(zip(RUN_COLUMNS, run_row(jobs[0], "planned", a, "val/knn_top1", {}), strict=True))
    assert "1 of a GPU, the second time" in row["failure"]
    # A whole card was too small: nothing is gained by fewer trainings.
    assert row["failure"].endswith("try: a smaller batch_size")
    if phase == "confirm":  # run again on resume, from its first share
        again = ConfirmSource(jobs, ledger, WORKLOAD)
        assert again.remaining() == 1
        assert again.next() == dataclasses.replace(jobs[0], gpus=None, retried="")
