"""What does a study lose when the machine under it fails? Each fault here is really injected.

The studies are whole ones, from the command to the tables, with trainings in this process where
Ray is not the point. `docs/reliability.md` lists them all with what each one costs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from in_process import execute_here, without_ray, write_study

from contrastive import workload
from contrastive.training import loop
from study import execution, session
from study.execution import worker
from study.execution.resources import Share
from study.phases import optuna_storage
from study.reporting import summary
from study.run import main
from study.tracking import mlflow_tracker
from study.tracking.mlflow_tracker import Tracker

# A whole study each.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SPEC = """
name: small
trial: {dataset: digits, epochs: 2, batch_size: 20, train_limit: 60, blur_prob: 0.0}
arms:
  contrastive: {loss: contrastive}
  debiased_pos: {loss: debiased_pos}
search:
  trials_per_arm: 3
  space: {temperature: {low: 0.1, high: 1.0, log: true}}
  early_stopping: {grace_epochs: 1, reduction_factor: 2}
confirm: {seeds: 2}
"""
SEARCHED, CONFIRMED = 6, 4


class Silent:
    """A tracker that does nothing: MLflow takes seconds to start and is not always the point."""

    def __init__(self, *args, **options) -> None: ...

    def flush(self) -> dict[str, str]:
        return {}

    place = flush

    def __getattr__(self, name: str):
        return lambda *args, **options: None


class Watch:
    """A monitor that calls `act` once, before the job with this number starts."""

    def __init__(self, number: int, act) -> None:
        self.left, self.act = number, act

    def on_start(self, job) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()

    def on_records(self, job, records) -> None: ...

    def on_end(self, ending) -> None: ...


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the study's file; trainings run in this process, MLflow is left out.

    Monitors put into the list that it yields are told about everything.
    """
    return prepare(tmp_path, monkeypatch)


def prepare(folder: Path, monkeypatch) -> list:
    watching: list = []
    # Whole or not at all: another process of a test may be reading it.
    scratch = folder / f"small.yaml.{os.getpid()}"
    scratch.write_text(SPEC)
    os.replace(scratch, folder / "small.yaml")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.setattr(session, "Tracker", Silent)
    monkeypatch.setattr(mlflow_tracker, "PATIENCE_S", 60.0)  # a busy machine is not the point
    monkeypatch.setattr(execution, "start_ray", lambda address, study: None)
    monkeypatch.setattr(execution, "share", lambda asked: Share(1, 0.0, 1))

    def execute(source, *, monitors, **options) -> None:
        execute_here(source, monitors=[*monitors, *watching])

    monkeypatch.setattr(execution, "execute", execute)
    # Pages of figures take longer than the trainings here.
    monkeypatch.setattr(session.Session, "_report", without_report)
    return watching


def without_report(self) -> int:
    endings = [e for phase in ("search", "confirm") for e in self.ledger.all(phase)]
    return summary.FAILED if any(e.outcome == "failed" for e in endings) else summary.DONE


def run(*options: str) -> int:
    return main(["small.yaml", *options])


def results(storage: Path | str = "studies") -> str:
    return (Path(storage) / "small" / "results.csv").read_text()


def runs(storage: Path | str = "studies") -> pd.DataFrame:
    return pd.read_csv(Path(storage) / "small" / "runs.csv").drop(columns="seconds")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple[str, pd.DataFrame]:
    """results.csv and runs.csv of the study when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        prepare(folder, monkeypatch)
        assert run() == 0
        return results(), runs()


def check(undisturbed, storage: Path | str = "studies") -> None:
    """The study decided as if nothing had happened, with every run there once."""
    assert results(storage) == undisturbed[0]
    pd.testing.assert_frame_equal(runs(storage), undisturbed[1])


class TestDisk:
    """A real file system of one megabyte that is filled to its last byte, or made read-only."""

    @pytest.fixture
    def disk(self, tmp_path) -> Iterator[Path]:
        """The mounted folder; needs the right to mount."""
        place = tmp_path / "disk"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small file system is not allowed here")
        yield place
        subprocess.run(["umount", "--lazy", str(place)], check=True)

    @staticmethod
    def fill(disk: Path) -> None:
        with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"0" * 4096)

    @pytest.mark.parametrize("number", [4, 1, SEARCHED + 2])
    def test_a_full_disk_pauses_the_study_and_it_ends_as_if_nothing_had_happened(
        self, here, disk, undisturbed, capsys, number: int
    ):
        here.append(Watch(number, lambda: self.fill(disk)))
        assert run("--storage", str(disk)) == 1
        told = capsys.readouterr().err
        assert "the study pauses: the disk is full" in told
        assert "--resume" in told
        assert len(told.splitlines()) == 2
        assert run("--storage", str(disk), "--resume") == 1  # still full
        (disk / "filler").unlink()
        assert run("--storage", str(disk), "--resume") == 0
        check(undisturbed, disk)

    def test_a_checkpoint_that_finds_no_room_costs_the_training_nothing(
        self, here, disk, undisturbed, monkeypatch
    ):
        """As when only the workers' disk is full; the driver's is another one."""
        monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", 0.0)
        real, tried = worker.run_job, []

        def elsewhere(data, report, **options) -> None:
            real(data | {"folder": str(disk)}, report, **options)

        def save(*args) -> None:
            tried.append(1)
            saved(*args)

        saved = workload._save_state
        monkeypatch.setattr(workload, "_save_state", save)
        monkeypatch.setattr(worker, "run_job", elsewhere)
        self.fill(disk)
        assert run() == 0
        assert len(tried) >= SEARCHED + CONFIRMED
        assert [file.name for file in disk.rglob("*") if file.is_file()] == ["filler"]
        check(undisturbed)

    @pytest.mark.parametrize("begun", [False, True])
    def test_a_read_only_folder_is_told_in_one_message(self, here, disk, capsys, begun: bool):
        options = ["--storage", str(disk)]
        if begun:
            assert run() == 0
            shutil.copytree("studies", disk, dirs_exist_ok=True)
            options.append("--resume")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        capsys.readouterr()
        assert run(*options) == 2
        told = capsys.readouterr().err
        assert "cannot be written" in told or "cannot be made" in told
        assert "Read-only file system" in told
        assert "--storage DIR" in told
        assert len(told.splitlines()) == 2

    @pytest.mark.parametrize("number", [3, SEARCHED + 2])
    def test_a_ledger_that_cannot_be_kept_pauses_the_study(
        self, here, undisturbed, monkeypatch, capsys, number: int
    ):
        """The same where nothing may be mounted: the disk refuses in `fsync`."""

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        here.append(Watch(number, lambda: monkeypatch.setattr(os, "fsync", full)))
        assert run() == 1
        assert "the disk is full" in capsys.readouterr().err
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        here.clear()
        assert run("--resume") == 0
        check(undisturbed)


def test_an_address_of_no_store_is_refused_as_storage(here, capsys):
    assert run("--storage", "http://bucket/studies") == 2
    assert "http://bucket/studies is no address that can be used" in capsys.readouterr().err
    assert not list(Path().glob("http*"))


@pytest.mark.parametrize("damage", ["half", "nothing", "zeros", "another shape"])
def test_a_torn_ledger_file_is_a_run_to_be_done_again(here, undisturbed, damage: str):
    """In both phases; the winners were frozen before, so the search is not asked again."""
    assert run() == 0
    study = Path("studies/small")
    for name in ("search/contrastive/0001", "confirm/debiased_pos/default/0002"):
        tear(study / "runs" / f"{name}.json", damage)
    (study / "winners.json").unlink()  # else what the search has lost is not missed
    assert run("--resume") == 0
    check(undisturbed)
    assert run("--resume") == 0  # nothing is left to be done
    check(undisturbed)


def tear(file: Path, damage: str) -> None:
    whole_text = file.read_bytes()
    file.write_bytes(
        {
            "half": whole_text[: len(whole_text) // 2],
            "nothing": b"",
            "zeros": b"\0" * len(whole_text),
            "another shape": b"[1, 2]",
        }[damage]
    )


class TestTrainings:
    """What happens within one training stays within its row."""

    def test_a_loss_that_is_not_a_number_halfway_is_a_diverged_run(
        self, here, undisturbed, monkeypatch
    ):
        real, calls = loop.LOSSES["debiased_pos"], []

        @functools.wraps(real)  # the space follows the loss's own options
        def poisoned(*args, **options):
            calls.append(1)
            # Three steps an epoch, two epochs: the second trial's second epoch.
            return real(*args, **options) * (float("nan") if len(calls) == 11 else 1.0)

        monkeypatch.setitem(loop.LOSSES, "debiased_pos", poisoned)
        assert run() == 0
        rows = runs()
        assert len(rows) == SEARCHED + CONFIRMED
        (row,) = rows[rows.status == "diverged"].itertuples()
        assert (row.phase, row.arm, row.epochs) == ("search", "debiased_pos", 1)
        assert "not finite in epoch 2" in row.failure
        assert "val/knn_top1" in row.failure
        kept, expected = (r[r.arm == "contrastive"] for r in (rows, undisturbed[1]))
        pd.testing.assert_frame_equal(kept, expected, check_dtype=False)

    def test_memory_that_runs_out_is_a_failed_row_and_not_the_end(
        self, here, undisturbed, monkeypatch, capsys
    ):
        real = loop.train

        def greedy(config, seed, **options):
            for record in real(config, seed, **options):
                if record.epoch and config.loss == "debiased_pos" and seed == 2:
                    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
                yield record

        monkeypatch.setattr(loop, "train", greedy)
        assert run() == 1
        rows = runs()
        (row,) = rows[rows.status == "failed"].itertuples()
        assert (row.phase, row.arm, row.seed) == ("confirm", "debiased_pos", 2)
        assert "Tried to allocate 9 GiB" in row.failure
        last = row.failure.splitlines()[-1]
        assert last.startswith("out of GPU memory after ")
        assert "batch_size 20" in last
        assert "resources.gpus" in last
        others, expected = (r.drop(index=row.Index) for r in (rows, undisturbed[1]))
        pd.testing.assert_frame_equal(others, expected, check_dtype=False)

    @pytest.mark.parametrize(
        "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
    )
    def test_memory_of_the_processor_counts_too(self, here, monkeypatch, error: Exception):
        def greedy(*args, **options):
            raise error

        monkeypatch.setattr(loop, "train", greedy)
        assert run("--set", "search=null", "--set", "confirm.seeds=1") == 1
        assert runs().failure.str.endswith("out of memory with batch_size 20").all()


class Locked:
    """Another process that holds an SQLite file for itself for some seconds."""

    SCRIPT = (
        "import sqlite3, sys, time\n"
        "held = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)\n"
        "held.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "time.sleep(float(sys.argv[2]))\n"
    )

    def __init__(self, file: Path, seconds: float) -> None:
        self.file, self.seconds, self.process = file, seconds, None

    def __call__(self) -> None:
        command = [sys.executable, "-c", self.SCRIPT, str(self.file), str(self.seconds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "locked\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.process = None


class TestLocks:
    def test_a_study_waits_for_its_database(self, here, undisturbed):
        lock = Locked(Path("studies/small/search.db"), 1)
        here.append(Watch(3, lock))
        started = time.monotonic()
        assert run() == 0
        assert time.monotonic() - started > 1
        lock.end()
        check(undisturbed)

    def test_a_database_that_stays_locked_pauses_the_study(
        self, here, undisturbed, monkeypatch, capsys
    ):
        monkeypatch.setattr(optuna_storage, "LOCK_TIMEOUT_S", 0.5)
        lock = Locked(Path("studies/small/search.db"), 60)
        here.append(Watch(3, lock))
        assert run() == 1
        told = capsys.readouterr().err
        lock.end()
        assert "search.db locked for 0.5 s" in told
        assert "--resume" in told
        here.clear()
        assert run("--resume") == 0
        check(undisturbed)


class TestMlflow:
    """MLflow is a mirror: whatever becomes of it, the study continues."""

    def test_a_server_that_nobody_runs_costs_one_warning(
        self, here, undisturbed, monkeypatch, capsys
    ):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        monkeypatch.setattr(session, "Tracker", Tracker)
        monkeypatch.setattr(mlflow_tracker, "PATIENCE_S", 2.0)
        assert run() == 0
        told = capsys.readouterr().err
        assert told.count("MLflow cannot be written") <= 1  # a busy machine takes longer to know
        assert "MLflow lacks 10 trainings" in told
        check(undisturbed)

    def test_a_server_that_never_answers_costs_the_patience_and_the_next_start_sends_all(
        self, here, undisturbed, monkeypatch, capsys, empty_mlflow
    ):
        monkeypatch.setattr(session, "Tracker", Tracker)
        # Takes connections and never answers.
        with socket.socket() as server, monkeypatch.context() as patch:
            server.bind(("127.0.0.1", 0))
            server.listen()
            patch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
            patch.setattr(mlflow_tracker, "PATIENCE_S", 2.0)
            assert run() == 0
        assert "MLflow lacks 10 trainings" in capsys.readouterr().err
        assert results() == undisturbed[0]
        shutil.copy(empty_mlflow, "mlflow.db")
        assert run("--resume") == 0
        assert runs().mlflow_run_id.notna().all()
        assert runs().mlflow_run_id.is_unique

    def test_a_locked_database_of_mlflow_delays_its_own_writer_only(
        self, here, undisturbed, monkeypatch, capsys, empty_mlflow
    ):
        monkeypatch.setattr(session, "Tracker", Tracker)
        shutil.copy(empty_mlflow, "mlflow.db")
        lock = Locked(Path("mlflow.db"), 1)
        here.append(Watch(SEARCHED + 1, lock))
        assert run() == 0
        lock.end()
        rows = runs()
        assert results() == undisturbed[0]
        assert capsys.readouterr().err == ""
        assert rows.mlflow_run_id.is_unique
        assert rows.mlflow_run_id.notna().all()

    def test_one_name_in_two_folders_at_once_is_two_studies(self, tmp_path, monkeypatch):
        """Two commands that share a working directory, hence mlflow.db and the experiment."""
        write_study(tmp_path)
        script = (
            "import sys; import pytest; from in_process import without_ray\n"
            "from study import run, session; from study.tracking import mlflow_tracker as mlflow\n"
            "with pytest.MonkeyPatch.context() as patch:\n"
            "    without_ray(patch)\n"
            "    patch.setattr(session, 'Tracker', mlflow.Tracker)\n"
            "    patch.setattr(session, 'close_study', lambda *_, **__: 0)\n"
            "    patch.setattr(mlflow, 'PATIENCE_S', 60.0)\n"
            "    sys.exit(run.main(sys.argv[1:]))\n"
        )
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = os.environ | {"PYTHONPATH": path, "MLFLOW_TRACKING_URI": ""}
        options = ["own.yaml", "--set", "confirm.seeds=2", "--storage"]
        both = [
            subprocess.Popen(
                [sys.executable, "-c", script, *options, storage], cwd=tmp_path, env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for storage in ("one", "two")
        ]  # fmt: skip
        monkeypatch.chdir(tmp_path)
        without_ray(monkeypatch)
        monkeypatch.setattr(session, "close_study", lambda *_, **__: 0)
        assert main([*options, "alone"]) == 0
        told = [process.communicate(timeout=80)[1] for process in both]
        assert told == ["", ""]
        assert [process.returncode for process in both] == [0, 0]
        ids = set()
        alone = Path("alone/own/results.csv").read_bytes()
        for folder in (Path("one/own"), Path("two/own")):
            assert (folder / "results.csv").read_bytes() == alone
            ids |= set(pd.read_csv(folder / "runs.csv").mlflow_run_id)
        assert len(ids) == 2 * (4 + 4)


class TestClock:
    """The wall clock jumps back; what is decided comes from counts, not from times of day."""

    @staticmethod
    def going_back(monkeypatch) -> None:
        real, began = time.time, time.time()
        monkeypatch.setattr(time, "time", lambda: 2 * began - real() - 3600)

    def test_a_study_whose_clock_runs_backwards(self, here, undisturbed, monkeypatch, empty_mlflow):
        monkeypatch.setattr(session, "Tracker", Tracker)
        shutil.copy(empty_mlflow, "mlflow.db")
        here.append(Watch(3, lambda: self.going_back(monkeypatch)))
        assert run() == 0
        assert results() == undisturbed[0]
        assert runs().mlflow_run_id.is_unique
