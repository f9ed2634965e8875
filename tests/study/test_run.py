"""Does the one command work, from the file to the report, and after a kill?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from closed_pipe import closed_pipe
from in_process import TRAINING, without_ray, write_study

from study import run as run_module
from study.run import main

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "search_spaces" / "smoke.yaml"


def start(
    folder: Path, *options: str, file: Path | str = SMOKE, **variables: str
) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": ""} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "study.run", str(file), *options],
        cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def smoke(home) -> tuple[Path, str]:
    """The folder and the output of one real run of the smoke study, with Ray."""
    process = start(home)
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    assert err == ""
    return home / "studies" / "smoke", out


@pytest.mark.slow
def test_the_output_is_short_and_says_where_everything_is(smoke):
    folder, out = smoke
    lines = out.strip().splitlines()
    assert len(lines) < 25
    assert any(line.startswith("S1: ") for line in lines)
    report = next(line for line in lines if line.startswith("report:")).split()[-1]
    assert (folder.parents[1] / report).exists()
    assert "mlflow ui" in lines[-2]
    page = "http://127.0.0.1:5000/#/experiments/1?workflowType=machine_learning"
    assert lines[-1].strip() == page


@pytest.mark.slow
def test_every_planned_run_is_in_the_tables(smoke):
    folder, _ = smoke
    runs = pd.read_csv(folder / "runs.csv")
    search, confirm = runs[runs.phase == "search"], runs[runs.phase == "confirm"]
    assert search.groupby("arm").size().to_dict() == {"contrastive": 4, "debiased_pos": 4}
    assert set(search.status) <= {"finished", "stopped"}
    assert (confirm.status == "finished").all()
    assert confirm.groupby("arm").seed.apply(sorted).map(list).tolist() == [[1, 2, 3, 4, 5, 6]] * 2
    assert (confirm.epochs == 3).all()
    assert runs.mlflow_run_id.is_unique
    results = pd.read_csv(folder / "results.csv")
    final = results[results.metric == "test/knn_top1"]
    assert len(final) == 12
    assert final.epoch.isna().all()
    assert (final.value == final.correct / final.total).all()
    curves = results[results.metric == "val/knn_top1"]
    assert sorted(curves.epoch.unique()) == [0, 1, 2, 3]


@pytest.mark.slow
def test_the_test_split_is_read_once_by_each_confirmation_run_and_by_nothing_else(smoke):
    folder, _ = smoke
    runs = pd.read_csv(folder / "runs.csv")
    assert (runs.test_reads == (runs.phase == "confirm")).all()
    told = json.loads((folder / "report" / "report.json").read_text())["provenance"]["test split"]
    assert told == (
        "reads in the confirmation: 12, at most 1 per run, after its last epoch; in the search: 0"
    )


@pytest.mark.slow
def test_the_confirmation_uses_the_frozen_winners(smoke):
    folder, _ = smoke
    winners = json.loads((folder / "winners.json").read_text())["winners"]
    runs = pd.read_csv(folder / "runs.csv")
    for arm, won in winners.items():
        mine = runs[runs.arm == arm]
        configs = [json.loads(c) for c in mine[mine.phase == "confirm"].config]
        for name, value in won.items():
            assert {c[name] for c in configs} == {value}
        finished = mine[(mine.phase == "search") & (mine.status == "finished")]
        best = json.loads(finished.sort_values("value").config.iloc[-1])
        ties = finished[finished.value == finished.value.max()]
        assert best["temperature"] == won["temperature"] or len(ties) > 1


@pytest.mark.slow
def test_the_report_is_written_in_all_forms(smoke):
    folder, _ = smoke
    report = json.loads((folder / "report" / "report.json").read_text())
    assert report["schema"] == 4
    assert report["design"]["hash"] == yaml.safe_load((folder / "study.yaml").read_text())["hash"]
    assert [claim["id"] for claim in report["claims"]] == ["S1"]
    html = (folder / "report" / "report.html").read_text()
    assert "<svg" in html
    # Links to the runs in MLflow are no loads: nothing but `a` has an address outside the page.
    assert set(re.findall(r'<(\w+)[^<>]*(?:src|href)="https?://', html)) == {"a"}
    runs = pd.read_csv(folder / "runs.csv").query("phase == 'confirm'")
    sessions = [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]
    (place,) = [entry["mlflow"] for entry in sessions if "mlflow" in entry]
    for run_id in runs.mlflow_run_id:
        url = f"http://127.0.0.1:5000/#/experiments/{place['experiment']}/runs/{run_id}"
        assert f'href="{url}?workflowType=machine_learning"' in html
    assert list((folder / "report" / "tables").glob("*.csv"))
    assert list((folder / "report" / "tables").glob("*.tex"))


@pytest.mark.slow
def test_mlflow_holds_the_phases_the_nested_runs_the_curves_and_the_report(smoke):
    folder, _ = smoke
    import mlflow

    home = folder.parents[1]
    client = mlflow.MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("smoke")
    assert f'"experiment": "{experiment.experiment_id}"' in (folder / "sessions.jsonl").read_text()
    runs = {
        run.data.tags["study.key"]: run
        for run in client.search_runs([experiment.experiment_id], max_results=100)
    }
    assert len(runs) == 2 + 8 + 12
    for key, run in runs.items():
        assert run.info.status == "FINISHED"
        if "/" in key:
            parent = runs[key.split("/")[0]]
            assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
            assert run.data.params["temperature"]
            assert ("tau_plus" in run.data.params) == ("debiased_pos" in key)
            assert "None" not in run.data.params.values()
    one = runs["confirm/debiased_pos/default/0003"]
    curve = client.get_metric_history(one.info.run_id, "val/knn_top1")
    assert [point.step for point in curve] == [0, 1, 2, 3]
    assert one.data.metrics["test/linear_top5"] > 0
    names = [a.path for a in client.list_artifacts(runs["confirm"].info.run_id, "report")]
    assert "report/report.html" in names
    told = runs["confirm"].data
    assert told.tags["mlflow.note.content"].endswith(told.tags["claim.S1"].split(": ", 1)[1])
    report = json.loads((folder / "report" / "report.json").read_text())
    means = {f"{a['metric']}/{a['arm']}": a["mean"] for a in report["arms"]}
    assert means.items() <= told.metrics.items()
    assert told.metrics["difference/S1"] == report["comparisons"][0]["mean_difference"]


@pytest.mark.slow
def test_a_second_start_changes_nothing_and_names_both_options(smoke, monkeypatch, capsys):
    folder, _ = smoke
    monkeypatch.chdir(folder.parents[1])
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    assert main([str(SMOKE)]) == 2
    told = capsys.readouterr().err
    assert "already exists" in told
    assert "--resume" in told
    assert "--name smoke-2" in told
    assert before == {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_resume_with_another_design_is_refused_with_the_differences(smoke, monkeypatch, capsys):
    monkeypatch.chdir(smoke[0].parents[1])
    assert main([str(SMOKE), "--resume", "--set", "trial.epochs=4", "--set", "margin=0.5"]) == 2
    told = capsys.readouterr().err
    assert "trial.epochs: was 3, is now 4" in told
    assert "margin: was 0.02, is now 0.5" in told


@pytest.mark.slow
def test_the_report_can_be_written_again_and_is_the_same(smoke, monkeypatch, capsys):
    from study.report import main as report

    monkeypatch.chdir(smoke[0].parents[1])
    before = (smoke[0] / "report" / "report.json").read_text()
    assert report(["smoke", "--out", "again"]) == 0
    assert json.loads(Path("again/report.json").read_text()) == json.loads(before)
    assert report(["smok"]) == 2
    assert "smoke" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_is_verified_and_a_changed_figure_is_found(smoke, monkeypatch, capsys, tmp_path):
    from study.report import main as report

    shutil.copytree(smoke[0], tmp_path / "smoke", ignore=shutil.ignore_patterns("ray"))
    monkeypatch.chdir(smoke[0].parents[1])
    verify = ["smoke", "--storage", str(tmp_path), "--verify"]
    assert report(verify) == 0
    assert "every number follows" in capsys.readouterr().out
    with closed_pipe() as pipe:
        command = [sys.executable, "-m", "study.report", *verify]
        ended = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (141, b"")
    results = tmp_path / "smoke" / "results.csv"
    text = results.read_text()
    row = next(line for line in text.splitlines() if "test/knn_top1" in line)
    value, correct, total = row.split(",")[-3:]
    better = f"{(int(correct) + 9) / int(total)!r},{int(correct) + 9},{total}"
    results.write_text(text.replace(row, row.replace(f"{value},{correct},{total}", better)))
    assert report(verify) == 1
    out = capsys.readouterr().out
    assert f"value is {better.split(',')[0]}, but was logged as {value}" in out
    assert "report.json: " in out
    results.write_text(text)

    record = tmp_path / "smoke" / "runs" / "search" / "contrastive" / "0002.json"
    text = record.read_text()
    record.unlink()
    assert report(verify) == 1
    out = capsys.readouterr().out
    assert "search/contrastive/0002: search.db has this trial, and its record is gone" in out
    assert "runs.csv:4: search contrastive default 0 2 was logged by no run" in out
    assert out.count("runs.csv:") == 1

    record.write_text(re.sub(r'("val/knn_top1": )0\.\d+', r"\g<1>0.99", text))
    assert report(verify) == 1
    assert "runs/search/contrastive/0002.json: was changed after" in capsys.readouterr().out
    record.write_text(text)

    (tmp_path / "smoke" / "search.db").write_bytes(b"torn")
    assert report(verify) == 1
    assert "search.db: is damaged" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "smoke" / "runs")
    assert report(verify) == 2
    assert "lacks runs/" in capsys.readouterr().err


def wait_for(count: int, runs: Path, process: subprocess.Popen) -> None:
    """Until so many trainings have ended."""
    deadline = time.monotonic() + 120
    while len(list(runs.rglob("*.json"))) < count:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def ray_process(process: subprocess.Popen, name: str) -> int:
    """The pid of one of the processes that a study has started as Ray."""
    named = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in children(process.pid)}
    return named[name]


def children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in threads for child in file.read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"\xff\xfe torn", b"arm,seed\na,x\n"])
def test_damaged_tables_are_named_and_never_a_traceback(smoke, capsys, tmp_path, content):
    import shutil

    from study.report import main as report

    for table in ("results.csv", "runs.csv"):
        shutil.rmtree(tmp_path / "smoke", ignore_errors=True)
        shutil.copytree(smoke[0], tmp_path / "smoke", ignore=shutil.ignore_patterns("ray"))
        (tmp_path / "smoke" / table).write_bytes(content)
        assert report(["smoke", "--storage", str(tmp_path)]) == 2
        assert report(["smoke", "--storage", str(tmp_path), "--verify"]) == 1
        shown = capsys.readouterr()
        assert table in shown.out
        assert shown.err


class Gate:
    """Lets so many trainings of each session pass; the next ones are under way, and wait.

    So it is known what is going on when something is killed, and no training has to be long.
    """

    def __init__(self, folder: Path) -> None:
        self.tickets, self.limit = folder / "tickets", folder / "limit"

    def let_pass(self, count: int) -> None:
        """In the session that is about to begin."""
        shutil.rmtree(self.tickets, ignore_errors=True)
        self.tickets.mkdir()
        self.limit.write_text(str(count))

    def code(self) -> str:
        """A training function that goes through it."""
        wait = """    mine = ticket(1)
    while mine > int(pathlib.Path(LIMIT).read_text()):
        time.sleep(0.02)
    for epoch"""
        return f"""
import pathlib, time

TICKETS, LIMIT = {str(self.tickets)!r}, {str(self.limit)!r}

def ticket(number):
    try:
        (pathlib.Path(TICKETS) / str(number)).mkdir()
    except FileExistsError:
        return ticket(number + 1)
    return number

{TRAINING.replace("    for epoch", wait)}
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_study_survives_its_driver_its_machine_ray_and_an_impatient_user(
    tmp_path, monkeypatch, capsys, empty_mlflow
):
    """Each in a session of its own, with trainings under way; the last session ends the study.

    SIGKILL to the driver in the search, and its local folder lost with it, but for the store;
    SIGKILL to Ray's raylet and its workers, then to its head; Ctrl-C, twice, in the confirmation.
    The results are those of one training after the other, without Ray.
    """
    gate, store, cache = Gate(tmp_path), tmp_path / "bucket", tmp_path / "cache"
    file = write_study(tmp_path)
    file.write_text(file.read_text().replace("per_arm: 2", "per_arm: 4\n  parallel_per_arm: 1"))
    (tmp_path / "my_training.py").write_text(gate.code())
    shutil.copy(empty_mlflow, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as here:
        without_ray(here)
        gate.let_pass(1000)
        assert main([str(file), "--storage", "whole"]) == 0
    whole, away = tmp_path / "whole" / "own", store / "own"
    options = ["--storage", store.as_uri()]

    def session(let_pass: int) -> subprocess.Popen:
        gate.let_pass(let_pass)
        return start(tmp_path, *options, file=file, CONTRASTIVE_CACHE=str(cache))

    process = session(3)
    wait_for(3, away / "runs" / "search", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL  # it was still at work
    shutil.rmtree(cache / "studies")
    with monkeypatch.context() as here:  # without --resume nothing is touched
        here.setenv("CONTRASTIVE_CACHE", str(cache))
        assert main([str(file), *options]) == 2
    assert f"already exists in {store.as_uri()}/own" in capsys.readouterr().err
    options.append("--resume")

    process = session(2)
    wait_for(5, away / "runs" / "search", process)
    raylet = ray_process(process, "raylet")
    for pid in [raylet, *children(raylet)]:  # workers alone would still end what they have
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Ray on this machine has died" in err

    process = session(1)
    wait_for(6, away / "runs" / "search", process)
    os.kill(ray_process(process, "gcs_server"), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "Ray on this machine has died (its raylet or its head)" in err
    assert "the same command with --resume" in err
    assert "Traceback" not in err

    process = session(2 + 4)
    wait_for(4, away / "runs" / "confirm", process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)  # an impatient second one
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.strip().endswith("--resume")
    (local,) = (cache / "studies").glob("*/own")
    kept = {file: file.stat().st_mtime_ns for file in (local / "runs").rglob("*.json")}
    assert len(kept) == 8 + 4

    process = session(1000)
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    (told,) = [line.split()[-1] for line in out.splitlines() if line.startswith("here:")]
    assert Path(told) == local
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    for name in ("results.csv", "winners.json"):
        assert (away / name).read_bytes() == (whole / name).read_bytes()
    runs = pd.read_csv(local / "runs.csv")
    assert len(runs) == 8 + 16
    assert runs.mlflow_run_id.is_unique
    assert not runs.mlflow_run_id.isna().any()
    there = {file.relative_to(away) for file in away.rglob("*.*")}
    here = {file.relative_to(local) for file in local.rglob("*.*") if "ray" not in file.parts}
    own = {Path(name) for name in ("tokens.json", "sessions.lock", "sessions.sha256")}
    assert there - {Path("driver.json")} == here - own
    for name in there & here:
        if (away / name).is_file() and name.suffix != ".db":
            assert (away / name).read_bytes() == (local / name).read_bytes()
    assert json.loads((away / "driver.json").read_text())["ended"]


@pytest.mark.slow
def test_a_dry_run_prints_the_plan_and_creates_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(SMOKE), "--dry-run", "--set", "confirm.seeds=4"]) == 0
    out = capsys.readouterr().out
    assert "2 arms × 4 trials" in out
    assert "2 arms × 1 conditions × 4 seeds = 8 runs" in out
    assert "WARNING: one claim needs at least 6 seeds" in out
    assert "time: about" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_dry_run_as_a_program_prints_nothing_but_the_plan(tmp_path):
    """PyTorch, with which it times a few batches, has a say at the end of the process."""
    process = start(tmp_path, "--dry-run")
    out, err = process.communicate(timeout=250)
    assert (process.returncode, err) == (0, "")
    assert "time: about" in out


@pytest.mark.slow
def test_a_dry_run_takes_the_spread_from_an_earlier_study(smoke, monkeypatch, capsys):
    from study.planning.power import pilot_sds

    monkeypatch.chdir(smoke[0].parents[1])
    results = pd.read_csv(smoke[0] / "results.csv")
    final = results[results.metric == "test/knn_top1"].pivot(
        index="seed", columns="arm", values="value"
    )
    sd = (final.debiased_pos - final.contrastive).std(ddof=1)
    found = pilot_sds(smoke[0] / "report" / "report.json")
    assert {claim: spread.total for claim, spread in found.items()} == {"S1": pytest.approx(sd)}
    assert main([str(SMOKE), "--dry-run", "--name", "next", "--pilot", "smoke"]) == 0
    out = capsys.readouterr().out
    assert f"pilot sd {sd:.4f}" in out
    assert re.search(r"one of 0\.02, the margin, would take \d+ seeds", out)
    assert main([str(SMOKE), "--dry-run", "--pilot", "gone"]) == 2
    assert "there is no study" in capsys.readouterr().err


STOPPING = TRAINING.replace(
    "    for epoch",
    """    import os, pathlib, signal, time
    asked = pathlib.Path("stop")
    if run.seed == 3 and asked.exists():
        which = asked.read_text()
        asked.unlink()
        pathlib.Path("timer").write_text(str(signal.getitimer(signal.ITIMER_REAL)[0]))
        os.kill(os.getpid(), getattr(signal, which))
        time.sleep(20)
    for epoch""",
)


@pytest.mark.parametrize(
    ("how", "options", "code", "why"),
    [
        ("SIGUSR1", [], 75, "stopped by SIGUSR1"),
        ("SIGTERM", [], 130, "interrupted"),
        ("SIGALRM", ["--stop-after", "5h"], 75, "stopped by --stop-after"),
    ],
)
def test_a_study_that_is_stopped_ends_in_order_and_resumes(
    tmp_path, monkeypatch, capsys, how, options, code, why
):
    """By Slurm's warning before its limit, by its end, by the study's own clock."""
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    monkeypatch.setattr("study.session.close_study", lambda *_, **__: 0)
    write_study(tmp_path)
    Path("my_training.py").write_text(STOPPING)
    Path("stop").write_text(how)
    assert main(["own.yaml", *options]) == code
    told = capsys.readouterr().err
    assert f"{why}; what has finished is kept" in told
    assert told.strip().endswith("--resume")
    runs = Path("studies/own/runs/confirm")
    kept = {file: file.read_bytes() for file in runs.rglob("*.json")}
    assert 0 < len(kept) < 16
    assert (float(Path("timer").read_text()) > 4 * 3600) == bool(options)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert main(["own.yaml", "--resume"]) == 0
    assert len([*runs.rglob("*.json")]) == 16
    assert all(file.read_bytes() == content for file, content in kept.items())


def test_a_first_signal_waits_for_the_trainings_and_a_second_one_does_not():
    stopped = run_module._Stopped()
    try:
        heeding = stopped.stopping.heeding()
        heeding.__enter__()
        stopped.by(signal.SIGUSR1, None)
        assert 20 < signal.getitimer(signal.ITIMER_REAL)[0] <= 30  # should the loop hang
        with pytest.raises(KeyboardInterrupt):
            heeding.__exit__(None, None, None)
        stopped.by(signal.SIGINT, None)  # Ray is being shut down
        assert stopped.code == 75

        stopped = run_module._Stopped()
        with stopped.stopping.heeding():
            stopped.by(signal.SIGINT, None)
            with pytest.raises(KeyboardInterrupt):
                stopped.by(signal.SIGALRM, None)
            stopped.stopping.asked = False
        assert stopped.code == 130
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize("lost", ["a pipe that closed", "a full disk"])
def test_a_study_outlives_whoever_reads_its_output(tmp_path, monkeypatch, lost):
    """`study.run … | head -1` ends with its verdict on disk."""
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    monkeypatch.setattr("study.session.close_study", lambda *_, **__: 0)
    write_study(tmp_path)
    with contextlib.ExitStack() as stack:
        if lost == "a full disk":
            out = stack.enter_context(open("/dev/full", "w"))
        else:
            out = os.fdopen(os.dup(stack.enter_context(closed_pipe())), "w")
            stack.enter_context(out)
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["own.yaml"]) == 0
    assert len(pd.read_csv("studies/own/runs.csv").query("status == 'finished'")) == 20


@pytest.fixture
def walk(tmp_path, monkeypatch) -> Path:
    """A study that was begun as `walk`, with a change on the command line."""
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    monkeypatch.setattr("study.session.close_study", lambda *_, **__: 0)
    write_study(tmp_path)
    assert main(["own.yaml", "--name", "walk", "--set", "confirm.seeds=3"]) == 0
    return tmp_path / "studies" / "walk"


def test_a_name_is_enough_to_resume(walk, monkeypatch):
    before = (walk / "study.yaml").read_text()
    (walk / "runs" / "confirm" / "wide" / "default" / "0002.json").unlink()
    assert main(["walk", "--resume"]) == 0
    assert (walk / "study.yaml").read_text() == before
    assert len([*(walk / "runs" / "confirm").rglob("*.json")]) == 6
    monkeypatch.chdir(walk)  # from elsewhere, too: the function lies where it lay
    assert main(["walk", "--resume", "--storage", "..", "--set", "confirm.seeds=4"]) == 0
    assert len([*(walk / "runs" / "confirm").rglob("*.json")]) == 8
    assert [file.name for file in walk.parent.iterdir()] == ["walk"]


def test_the_line_to_continue_names_the_study_that_is_there(walk, capsys):
    assert main(["own.yaml", "--name", "walk"]) == 2
    told = capsys.readouterr().err
    assert "to continue it:      python -m study.run own.yaml --name walk --resume" in told
    assert "--name walk-2" in told


@pytest.mark.parametrize("words", [["own.yaml", "--name", "wlak"], ["own.yaml"]])
def test_a_typo_in_a_name_starts_no_study(walk, capsys, words):
    assert main([*words, "--resume"]) == 2
    told = capsys.readouterr().err
    assert "to resume; nothing was started" in told
    assert "allowed: walk" in told
    assert ("--name walk --resume" in told) == ("wlak" in words)
    assert [file.name for file in walk.parent.iterdir()] == ["walk"]


@pytest.mark.parametrize("time", ["", "7", "7 hours", "h", "-5m", "0s", "5m7h", "\u0667h"])
def test_a_time_that_cannot_be_read_is_refused_with_what_is_allowed(tmp_path, capsys, time):
    assert main([str(SMOKE), "--storage", str(tmp_path), f"--stop-after={time}"]) == 2
    assert "7h30m, 90m, 45s" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("7h30m", 27000), ("90m", 5400), ("45s", 45), ("1d1s", 86401)]
)
def test_a_time_is_read_as_people_write_it(text, seconds):
    assert run_module._seconds(text) == seconds


def test_bad_input_exits_with_2_and_without_a_traceback(tmp_path):
    (tmp_path / "bad.yaml").write_text("name: x\narms: {a: {loss: contrastiv}}\nconfirm: {}\n")
    done = subprocess.run(
        [sys.executable, "-m", "study.run", "bad.yaml"], cwd=tmp_path, text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "bad.yaml:2: arms.a.loss is 'contrastiv'" in done.stderr
    assert "`confirm.seeds` is missing" in done.stderr
    assert "Traceback" not in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["bad.yaml"]


def test_a_torchvision_that_does_not_match_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchvision.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    assert main([str(SMOKE), "--dry-run", "--set", "trial.encoder=resnet18"]) == 2
    told = capsys.readouterr().err.strip()
    assert "torch and torchvision do not match (operator torchvision::nms does not exist)" in told
    assert len(told.splitlines()) == 1
