"""Does what runs the jobs pass on everything once, and survive workers that die?"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from in_process import execute_here, plain_job

from contrastive.workload import WORKLOAD
from study.design.study import Resources
from study.errors import StudyError
from study.execution.ray_cluster import start_ray
from study.execution.ray_tune import execute
from study.execution.resources import Share, share
from study.records.job import Job, Record, work
from study.records.ledger import Ledger
from study.run import _Stopped
from study.spec.find_workload import resolved

CONFIG = {"dataset": "digits", "train_limit": 100, "batch_size": 20}


def job(folder: Path, arm: str, number: int, **settings) -> Job:
    return Job(
        phase="search", arm=arm, condition="clean", seed=1, number=number,
        folder=str(folder), decide_at=(1, 2),
        **work(WORKLOAD, WORKLOAD.complete(CONFIG | {"epochs": 3} | settings)),
    )  # fmt: skip


class Listed:
    """A source that hands out given jobs, stops some at epoch 2, and notes everything."""

    def __init__(self, jobs: list[Job], stop: set[str] = frozenset()) -> None:
        self.waiting, self.stop = list(jobs), stop
        self.epochs: dict[str, list[int]] = {j.key: [] for j in jobs}
        self.endings = {}

    def remaining(self) -> int:
        return len(self.waiting)

    def next(self) -> Job | None:
        return self.waiting.pop(0) if self.waiting else None

    def on_records(self, job: Job, records) -> bool:
        self.epochs[job.key] += [record.epoch for record in records]
        return job.key in self.stop and records[-1].epoch == 2

    def on_end(self, ending) -> None:
        assert ending.job.key not in self.endings
        self.endings[ending.job.key] = ending


def check(source: Listed) -> None:
    """What must hold however the jobs were executed."""
    a, b, c = (source.endings[f"search/{arm}/0000"] for arm in "abc")
    assert source.epochs[a.job.key] == [0, 1, 2, 3]
    assert a.outcome == "finished"
    assert source.epochs[b.job.key] == [0, 1, 2]
    assert (b.outcome, b.epochs) == ("stopped", 2)
    assert c.outcome == "diverged"
    assert "not finite in epoch 1" in c.failure


def three(folder: Path) -> Listed:
    jobs = [job(folder, "a", 0), job(folder, "b", 0), job(folder, "c", 0, learning_rate=1e30)]
    return Listed(jobs, stop={"search/b/0000"})


def test_in_this_process(tmp_path):
    source = three(tmp_path)
    execute_here(source)
    check(source)


@pytest.mark.parametrize("final", [4, 6])
def test_a_restarted_training_that_ends_by_the_clock_before_what_was_told_keeps_its_test(
    tmp_path, final: int
):
    """The first worker told epochs 0 to 6 and died; the second goes on from 2, and is slower."""

    def told(epoch: int, **more: float) -> dict:
        return Record(epoch, {"val/knn_top1": 0.1 * epoch} | more, {}).plain()

    def work(data, report, **_) -> None:
        report({"records": [told(epoch) for epoch in range(7)], "outcome": None})
        report({"records": [told(epoch) for epoch in range(4)], "outcome": None})
        last = told(final, **{"test/knn_top1": 0.5})
        report({"records": [last], "outcome": "finished", "failure": ""})

    timed = job(tmp_path, "a", 0, epochs=50, budget={"seconds": 5.0})
    source = Listed([timed])
    execute_here(source, work=work)
    ending = source.endings[timed.key]
    assert ending.outcome == "finished"
    assert [record.epoch for record in ending.records] == list(range(final + 1))
    assert ending.last("test/knn_top1") == 0.5
    assert source.epochs[timed.key] == list(range(7))  # no epoch is told twice


@pytest.fixture(scope="module")
def ray():
    import ray

    arms = {"a": {}}
    start_ray(None, resolved({"name": "t", "arms": arms, "confirm": {"seeds": 1}}))
    yield ray
    ray.shutdown()


SHARE = Share(cpus=1, gpus=0.0, slots=2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_under_ray(ray, tmp_path):
    source = three(tmp_path)
    execute(source, share=SHARE, folder=tmp_path, session="one", retries=1)
    check(source)
    alone = three(tmp_path)
    execute_here(alone)
    for key, ending in source.endings.items():
        values = [{k: v for k, v in r.metrics.items() if k != "seconds"} for r in ending.records]
        other = alone.endings[key].records
        assert values == [{k: v for k, v in r.metrics.items() if k != "seconds"} for r in other]


@pytest.mark.parametrize("chosen", [None, "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"])
def test_a_start_on_this_machine_makes_a_token_unless_the_user_has(monkeypatch, chosen):
    import ray

    tokens = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: tokens.append(os.getenv("RAY_AUTH_TOKEN")))
    with monkeypatch.context() as patch:
        for name in ("MODE", "TOKEN", "TOKEN_PATH"):
            patch.delenv(f"RAY_AUTH_{name}", raising=False)
        if chosen:
            patch.setenv(chosen, "theirs")
        start_ray(None, resolved({"name": "t", "arms": {"a": {}}, "confirm": {"seeds": 1}}))
        patch.delenv("RAY_AUTH_TOKEN", raising=False)
    (token,) = tokens
    assert (token is None) == bool(chosen)
    assert chosen or re.fullmatch("[0-9a-f]{64}", token)


@pytest.mark.parametrize("kind", [Exception, RuntimeError, OSError, ValueError])
def test_a_ray_that_does_not_start_is_one_message(monkeypatch, kind):
    """Of a machine that is too busy Ray says so with a plain Exception."""
    import ray

    def late(*_: object, **__: object) -> None:
        raise kind("The current node timed out during startup.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", late)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    said = "Ray cannot be started on this machine: The current node timed out.*\n  try: again"
    with pytest.raises(StudyError, match=said):
        start_ray(None, resolved({"name": "t", "arms": {"a": {}}, "confirm": {"seeds": 1}}))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_stands_still_is_replaced_and_its_training_goes_on(ray, tmp_path):
    """SIGSTOP: nothing ends, no connection breaks, and no report comes any more."""
    marker = str(tmp_path / "stopped")

    def work(data, report, *, threads: int = 1) -> None:
        from study.execution import worker

        def stopping(result) -> None:
            report(result)
            epochs = [record["epoch"] for record in result.get("records", ())]
            if data["arm"] == "a" and 2 in epochs and not os.path.exists(marker):
                Path(marker).touch()
                os.kill(os.getpid(), signal.SIGSTOP)

        worker.run_job(data, stopping, threads=threads)

    jobs, said = [plain_job(tmp_path, arm) for arm in "ab"], []
    source = Listed(jobs, stop={"search/b/0000"})
    execute(
        source, share=SHARE, folder=tmp_path, session="stopped", retries=3, work=work,
        patience=8.0, warn=said.append,
    )  # fmt: skip
    assert Path(marker).exists()
    told = said[0]  # on a busy machine the next worker may take as long to start
    assert {key: ending.outcome for key, ending in source.endings.items()} == {
        "search/a/0000": "finished", "search/b/0000": "stopped",
    }  # fmt: skip
    assert source.epochs["search/a/0000"] == [1, 2, 3]
    assert told.startswith("search/a/0000: no sign of life for ")


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "0" * 64, "the study's"])
def test_only_who_knows_the_token_is_let_in(ray, tmp_path, token: str | None):
    """Of Ray on this machine: whoever is let in runs code as this user."""
    known = os.environ["RAY_AUTH_TOKEN"]
    environment = {n: v for n, v in os.environ.items() if not n.startswith("RAY_AUTH_")}
    environment["HOME"] = str(tmp_path)  # another user's, without a token of theirs
    if token:
        given = known if token == "the study's" else token
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": given}
    address = ray.get_runtime_context().gcs_address
    code = (
        "from ray._raylet import GcsClient\n"
        f"print(GcsClient(address={address!r}).internal_kv_keys(b'', None, timeout=20))"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if token == "the study's":
        assert asked.returncode == 0, asked.stderr
    else:
        assert asked.returncode == 1
        assert "AuthenticationError" in asked.stderr
    assert len(known) == 64
    assert known not in asked.stdout + asked.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_is_replaced_and_no_epoch_is_told_twice(ray, tmp_path, capsys):
    """SIGKILL to the process that trains; the job finishes all the same, and Ray keeps silent."""
    long = plain_job(tmp_path, "a", epochs=60, seconds=0.05)
    source = Listed([long])
    killed = []

    def kill() -> None:
        while len(source.epochs[long.key]) < 3:
            time.sleep(0.02)
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    execute(source, share=SHARE, folder=tmp_path, session="two", retries=2)
    thread.join()
    assert killed
    assert source.endings[long.key].outcome == "finished"
    assert source.epochs[long.key] == list(range(1, 61))
    assert "died" not in "".join(capsys.readouterr())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_study_that_is_asked_to_stop_saves_what_is_training(ray, tmp_path):
    """By SIGUSR1, whose handler Tune replaces by its own."""
    jobs = [job(tmp_path, arm, 0, epochs=60) for arm in "ab"]
    source, said, stopped = Listed(jobs), [], _Stopped()

    def ask() -> None:
        while not all(len(source.epochs[j.key]) > 3 for j in jobs):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=ask)
    before = signal.signal(signal.SIGUSR1, stopped.by)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            execute(
                source, share=SHARE, folder=tmp_path, session="asked", retries=1,
                warn=said.append, stopping=stopped.stopping,
            )  # fmt: skip
    finally:
        thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGUSR1, before)
    assert stopped.code == 75
    (told,) = said
    assert "save their state" in told
    assert source.endings == {}
    reached = {j.key: source.epochs[j.key][-1] for j in jobs}
    assert max(reached.values()) < 60
    for j in jobs:  # periodic checkpoints come every 30 s only
        saved = torch.load(Path(j.checkpoint) / "state.pt", weights_only=True)
        assert saved["state"]["epoch"] >= reached[j.key]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_always_dies_is_a_failed_job_and_not_a_failed_study(ray, tmp_path):
    doomed, fine = plain_job(tmp_path, "a", epochs=4000, seconds=0.1), plain_job(tmp_path, "b")
    source = Listed([doomed, fine])
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.2):
            if "search/b/0000" in source.endings:
                for pid in workers():
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    execute(source, share=SHARE, folder=tmp_path, session="three", retries=1)
    stop.set()
    thread.join()
    assert source.endings[doomed.key].outcome == "failed"
    assert "worker" in source.endings[doomed.key].failure
    assert source.endings[fine.key].outcome == "finished"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("at", ["on_end", "on_records", "next"])
def test_an_error_of_the_driver_is_not_buried_by_tune(ray, tmp_path, at: str):
    def full(*args) -> None:
        raise OSError(28, "No space left on device")

    source = Listed([plain_job(tmp_path, "a")])
    setattr(source, at, full)
    with pytest.raises(OSError, match="No space left"):
        execute(source, share=SHARE, folder=tmp_path, session=at, retries=0)


def test_an_error_of_the_driver_is_not_taken_for_the_training_s(tmp_path):
    class Full(Listed):
        def on_records(self, job: Job, records) -> bool:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        execute_here(Full([job(tmp_path, "a", 0)]))


@pytest.mark.slow
def test_shares_follow_what_ray_has(ray):
    cores = int(ray.cluster_resources()["CPU"])
    assert share(Resources()) == Share(1, 0.0, cores)
    if cores > 1:
        assert share(Resources(cpus=cores)).slots == 1
    from study.errors import StudyError

    with pytest.raises(StudyError, match=r"resources\.cpus=1"):
        share(Resources(cpus=cores + 1))
    with pytest.raises(StudyError, match="0 GPUs"):
        share(Resources(gpus=1))


@pytest.mark.parametrize(
    ("have", "asked", "expected"),
    [
        ({"CPU": 8, "GPU": 2}, {}, Share(1, 1.0, 2)),
        ({"CPU": 8, "GPU": 2}, {"gpus": 0.25}, Share(1, 0.25, 8)),
        ({"CPU": 4, "GPU": 2}, {"gpus": 0.25}, Share(1, 0.25, 4)),
        ({"CPU": 16, "GPU": 2}, {"gpus": 0.3}, Share(1, 0.3, 6)),
        ({"CPU": 16, "GPU": 4}, {"gpus": 2}, Share(1, 2.0, 2)),
        ({"CPU": 16, "GPU": 1}, {"gpus": 0}, Share(1, 0.0, 16)),
    ],
)
def test_shares_of_gpus(monkeypatch, have, asked, expected):
    monkeypatch.setattr("ray.cluster_resources", lambda: have)
    assert share(Resources(**asked)) == expected


def test_a_ledger_and_a_source_agree_on_keys(tmp_path):
    source = three(tmp_path)
    ledger = Ledger(tmp_path)
    execute_here(source)
    for ending in source.endings.values():
        ledger.write(ending)
    assert {e.job.key for e in ledger.all("search")} == set(source.endings)


def workers() -> list[int]:
    """Processes of this test's own Ray that train, without the agents whose death ends the node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and os.getpid() in ancestors(int(entry.name)):
            try:
                title = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if title.startswith("ray::ImplicitFunc"):
                found.append(int(entry.name))
    return found


def ancestors(pid: int) -> list[int]:
    """Parents of a process: others on this machine may be training too, and are left alone."""
    found = []
    while pid > 1:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(status.rpartition(")")[2].split()[1])  # after the name, which may hold spaces
        found.append(pid)
    return found
