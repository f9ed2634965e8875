"""Are trainings measured on a card the study's own, at the same time, and gone afterwards?"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from in_process import plain_job
from rich.console import Console
from torch.optim import optimizer

from contrastive.config import TrainConfig
from contrastive.workload import WORKLOAD
from study.design.study import Resources
from study.execution.gpu_sharing.bench import bench
from study.execution.gpu_sharing.packing import Card, Seen, Unmeasured, pack, trainings_per_card
from study.execution.gpu_sharing.probe import Glance, Probe
from study.execution.ray_thread import RayThread
from study.execution.ray_tune import execute
from study.execution.resources import Share, share
from study.records.job import Job, work
from study.session import Request, Session
from study.spec.find_workload import resolved
from study.storage.folder import Folder

CONFIG = {"dataset": "digits", "train_limit": 100, "batch_size": 20, "epochs": 2}
ASKED = {"workload": "contrastive", "beside": "", "declared": {}}


def training(**more) -> dict:
    """What a worker is given to measure."""
    return work(WORKLOAD, WORKLOAD.complete(CONFIG | more)) | ASKED


def until(probe: Probe, steps: int) -> Glance:
    deadline = time.monotonic() + 60
    while (found := probe.look()).steps < steps and not found.error:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@pytest.mark.slow
def test_a_probe_trains_on_and_on_and_leaves_nothing_behind():
    hooks = len(optimizer._global_optimizer_post_hooks)
    before = set(threading.enumerate())
    probe = Probe()
    probe.start(training())
    first = until(probe, 5)
    later = until(probe, 40)  # more than the ten steps of one training
    assert later.steps > first.steps
    assert later.at_s > first.at_s
    assert later.error == ""
    probe.stop()
    stopped = probe.look().steps
    time.sleep(0.2)
    assert probe.look().steps == stopped
    assert len(optimizer._global_optimizer_post_hooks) == hooks
    assert set(threading.enumerate()) == before


def test_a_probe_goes_on_where_the_training_diverges():
    probe = Probe()
    probe.start(training(learning_rate=1e30))
    assert until(probe, 12).error == ""
    probe.stop()


def test_a_probe_tells_what_ended_its_training(monkeypatch):
    def full(*args, **kwargs):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB\nmore")

    monkeypatch.setattr("contrastive.training.loop.train", full)
    probe = Probe()
    probe.start(training())
    assert until(probe, 1).error == "CUDA out of memory. Tried to allocate 3 GiB"


def test_a_probe_does_not_change_what_a_training_gives():
    from contrastive.training.loop import train

    def curve() -> list[dict]:
        return [
            {k: v for k, v in r.metrics.items() if k != "seconds"}
            for r in train(TrainConfig(**CONFIG), 3)
        ]

    before = curve()
    probe = Probe()
    probe.start(training())
    until(probe, 12)
    probe.stop()
    assert curve() == before


def job(folder: Path, arm: str, number: int) -> Job:
    return Job(
        phase="search", arm=arm, condition="clean", seed=1, number=number, folder=str(folder),
        **training(),
    )  # fmt: skip


class Listed:
    """A source of given jobs that notes how they ended."""

    def __init__(self, jobs: list[Job]) -> None:
        self.waiting, self.endings = list(jobs), {}
        self.epochs: dict[str, list[int]] = {job.key: [] for job in jobs}

    def remaining(self) -> int:
        return len(self.waiting)

    def next(self) -> Job | None:
        return self.waiting.pop(0) if self.waiting else None

    def on_records(self, job: Job, records) -> bool:
        self.epochs[job.key] += [record.epoch for record in records]
        return False

    def on_end(self, ending) -> None:
        assert ending.job.key not in self.endings
        self.endings[ending.job.key] = ending


@pytest.fixture(scope="module")
def ray():
    """Four cores and one GPU that do not exist."""
    import ray

    ray.init("local", num_cpus=4, num_gpus=1, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


pretended = pytest.mark.filterwarnings("ignore")


def glances():
    """Makes what stands for a `Glance`, without the PyTorch that each worker would import for it.

    A function within a function: Ray sends it to workers as it is, which know no test modules.
    """

    def glance(**shown) -> SimpleNamespace:
        nothing = {"steps": 0, "at_s": 0.0, "peak_gib": 3.0, "held_gib": 2.0, "used_gib": 0.0}
        return SimpleNamespace(**nothing | {"error": ""} | shown)

    return glance


@pytest.mark.slow
@pretended
def test_a_card_that_ray_only_pretends_gets_one_training(ray, tmp_path):
    said: list[str] = []
    study = resolved(
        {"name": "f", "trial": {"dataset": "digits"}, "arms": {"a": {}}, "confirm": {"seeds": 1}}
    )
    found = trainings_per_card(study, tmp_path, open_bench=lambda: bench(1), say=said.append)
    assert found == 1
    assert said == ["gpus: auto is one training per card: the workers see no CUDA device"]
    assert share(study.resources, together=found) == Share(1, 1.0, 1)
    assert free(ray, 4, 1)


@pytest.mark.slow
@pretended
def test_trainings_are_measured_at_the_same_time_on_one_card_and_are_gone_afterwards(
    ray, monkeypatch
):
    """Workers that only count, 100 steps per second each."""
    monkeypatch.setattr("study.execution.gpu_sharing.bench.WINDOW_S", 0.4)
    glance = glances()

    class Counting:
        def __init__(self, threads: int = 1) -> None:
            self.began, self.steps = time.monotonic(), 0

        def cards(self) -> list[tuple[str, float]]:
            return [("pretended", 10.0)]

        def start(self, training) -> None:
            self.training, self.began = training, time.monotonic()

        def stop(self) -> None:
            pass

        def look(self):
            now = time.monotonic()
            return glance(steps=int(100 * (now - self.began)), at_s=now, used_gib=4.0)

    with bench(1, probe=Counting) as found:
        assert (found.card.name, found.card.gib, found.card.most) == ("pretended", 10.0, 4)
        assert found.memory({"config": {}}) == pytest.approx(5.0)
        assert free(ray, 0, 0)  # nobody else gets the card while it is measured
        training = {"config": {}}
        packing = pack(lambda k: found.see(training, k), gib=20.0, most=3)
    assert packing.together == 3
    assert [s.steps_per_s for s in packing.seen] == pytest.approx([100, 200, 300], rel=0.1)
    assert [s.gib for s in packing.seen] == pytest.approx([5.0, 6.0, 7.0])
    assert free(ray, 4, 1)


@pytest.mark.slow
@pretended
def test_cores_for_one_training_need_no_measurement(ray):
    class Seeing:
        def __init__(self, threads: int = 1) -> None: ...

        def cards(self) -> list[tuple[str, float]]:
            return [("pretended", 10.0)]

    with pytest.raises(Unmeasured, match="cores"), bench(3, probe=Seeing):
        pass
    assert free(ray, 4, 1)


@pytest.mark.slow
@pretended
def test_a_worker_that_fails_is_told(ray):
    glance = glances()

    class Failing:
        def __init__(self, threads: int = 1) -> None: ...

        def cards(self) -> list[tuple[str, float]]:
            return [("pretended", 10.0)]

        def start(self, training) -> None: ...

        def look(self):
            return glance(error="CUDA out of memory")

    with pytest.raises(Unmeasured, match="out of memory"), bench(1, probe=Failing) as found:
        found.see(training(), 1)
    assert free(ray, 4, 1)


def test_what_pretended_workers_show_has_the_names_of_what_real_ones_show():
    assert vars(glances()()).keys() == vars(Probe().look()).keys()


def free(ray, cores: float, cards: float) -> bool:
    """Whether so much is free, once Ray has noticed."""
    for _ in range(100):
        have = ray.available_resources()
        if (have.get("CPU", 0), have.get("GPU", 0)) == (cores, cards):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pretended
def test_a_study_s_trainings_really_share_the_card_as_measured(ray, tmp_path, monkeypatch):
    """Through what `study.run` calls, with a card of which two trainings at a time are best."""
    seen = []

    class Pretended:
        card = Card("pretended", 80.0, 4)

        def memory(self, training) -> float:
            return 2.0

        def see(self, training, together: int) -> Seen:
            seen.append(together)
            return Seen(together, 10.0 * min(together, 2), 2.0 * together)

    def meet(data, report, *, threads: int) -> None:
        """Ends well only if both of them are there at the same time."""
        import pathlib
        import time

        here = pathlib.Path(data["folder"])
        (here / f"came-{data['arm']}").touch()
        deadline = time.monotonic() + 60
        while len(list(here.glob("came-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        met = len(list(here.glob("came-*"))) == 2
        report({"records": [], "outcome": "finished" if met else "failed", "failure": ""})

    monkeypatch.setattr(
        "study.execution.gpu_sharing.bench.bench", lambda cpus: contextlib.nullcontext(Pretended())
    )
    study = resolved(
        {"name": "f", "trial": {"dataset": "digits"}, "arms": {"a": {}}, "confirm": {"seeds": 1}}
    )
    request = Request(study, storage="studies")
    folder = Folder(tmp_path)
    folder.open(study, command="", storage="studies")
    folder.log.append(session=1)
    session = Session(
        request, folder, None, Console(quiet=True), 1, "studies", RayThread(None, study)
    )
    monkeypatch.setattr("study.execution.start_ray", lambda address, study: None)
    assert session._slots() == 2
    assert seen == [1, 2, 3, 4]
    source = Listed([job(tmp_path, arm, 0) for arm in "ab"])
    execute(source, share=session.share, folder=tmp_path, session="one", retries=0, work=meet)
    assert [ending.outcome for ending in source.endings.values()] == ["finished"] * 2


@pytest.mark.slow
@pretended
def test_jobs_whose_memory_ran_out_are_run_again_before_smaller_ones_take_their_room(ray, tmp_path):
    """Two at once, on halves of a card; each gets the whole one, and then the others their half."""
    starts = tmp_path / "starts"

    def greedy(data, report, *, threads: int = 1) -> None:
        from study.execution import worker

        with open(str(starts), "a") as log:
            log.write(f"{data['arm']} {data['gpus']}\n")
        runs_out = data["arm"].startswith("x") and data["gpus"] < 1
        worker.run_job(
            data | {"config": data["config"] | {"runs_out": runs_out}}, report, threads=threads
        )

    jobs = [plain_job(tmp_path, arm) for arm in ("x1", "x2", *"abcd")]
    source = Listed(jobs)
    execute(
        source, share=Share(1, 0.5, 2), folder=tmp_path, session="greedy", retries=0, work=greedy
    )
    assert {e.outcome for e in source.endings.values()} == {"finished"}
    assert sorted(source.endings) == sorted(job.key for job in jobs)
    assert all(epochs == [1, 2, 3] for epochs in source.epochs.values())
    began = [line.split() for line in starts.read_text().splitlines()]
    shares = {job.arm: [share for arm, share in began if arm == job.arm] for job in jobs}
    assert [shares[arm] for arm in ("x1", "x2")] == [["0.5", "1.0"]] * 2
    assert [shares[arm] for arm in "abcd"] == [["0.5"]] * 4
    assert max(began.index([arm, "1.0"]) for arm in ("x1", "x2")) <= 4


@pytest.mark.slow
@pretended
@pytest.mark.parametrize("together", [3, 4])  # a third is rounded; four take all cores
def test_as_many_trainings_share_a_card_as_were_measured(ray, together):
    found = share(Resources(), together=together)
    assert found.slots == together

    @ray.remote(num_cpus=1, num_gpus=found.gpus)
    class Busy:
        def here(self) -> bool:
            return True

    actors = [Busy.remote() for _ in range(together)]
    assert all(ray.get([actor.here.remote() for actor in actors], timeout=60))
    for actor in actors:
        ray.kill(actor)
    assert free(ray, 4, 1)


@pytest.mark.parametrize("together", range(1, 17))
def test_ray_s_rounding_never_leaves_out_a_training(monkeypatch, together):
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 64, "GPU": 2})
    found = share(Resources(), together=together)
    assert found.slots == 2 * together
    assert round(found.gpus * 10_000) * together <= 10_000


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pretended
def test_a_real_card_is_measured(tmp_path):
    import ray

    ray.shutdown()
    ray.init("local", include_dashboard=False, log_to_driver=False)
    free_before, total = torch.cuda.mem_get_info()
    try:
        with bench(1) as found:
            assert found.card.gib == pytest.approx(total / 2**30, rel=0.02)
            alone = found.see(training(), 1)
            two = found.see(training(), 2)
        assert 0 < alone.gib < two.gib < found.card.gib
        assert two.steps_per_s > 0
    finally:
        ray.shutdown()
    assert torch.cuda.mem_get_info()[0] >= free_before - 2**28
