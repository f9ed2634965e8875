"""Do the examples do what they are examples of, from an empty folder with one command?"""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from in_process import without_ray

import study
from study.workload import FunctionWorkload, Run, Stopped

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
STUDIES = sorted(EXAMPLES.glob("*/*.yaml"))
MOMENTUM = EXAMPLES / "pytorch_loop" / "momentum.yaml"
KILLS = int(os.environ.get("KILLS", "1"))  # each starts Ray again, which takes 10 s


@pytest.fixture(params=STUDIES, ids=lambda file: file.parent.name)
def file(request) -> Path:
    """The study file of an example whose packages are installed."""
    if request.param.parent.name.startswith("lightning"):
        needs_lightning()
    return request.param


def needs_lightning() -> None:
    pytest.importorskip("lightning", reason="needs lightning, the extra `examples`")


def module(folder: str, name: str, monkeypatch):
    """An example's module, imported as by a script beside it."""
    monkeypatch.syspath_prepend(str(EXAMPLES / folder))
    return importlib.import_module(name)


# Lightning and what it imports warn of much that is not in our hands.
@pytest.mark.filterwarnings("ignore")
def test_an_example_is_a_study_whose_function_trains(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    loaded = study.load_study(file)
    settings = loaded.trial | next(iter(loaded.arms.values())) | {"epochs": 2}
    twice = [
        study.run_once(loaded.workload, settings, seed=3, read_test=read_test)
        for read_test in (False, True)
    ]
    searched, confirmed = (found.curve.drop(columns="seconds") for found in twice)
    (tested,) = loaded.confirm.metrics
    assert list(searched.index) == [1, 2]
    assert list(searched) == [loaded.search.metric]
    # One seed twice is the same training, whether or not the test split is read.
    assert confirmed[loaded.search.metric].equals(searched[loaded.search.metric])
    assert confirmed[tested].isna().tolist() == [True, False]


def test_every_example_is_named_in_their_overview():
    overview = (EXAMPLES / "README.md").read_text()
    for found in STUDIES:
        assert f"contrastive-study run {found.relative_to(ROOT)}" in overview
        assert found.parent.name in re.findall(r"\[`(\w+)/`\]", overview)


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("last_saved", [1, 3])
def test_the_pytorch_loop_continues_exactly_where_it_was_killed(
    last_saved: int, tmp_path, monkeypatch
):
    """Killed after a report and before its save, when a naive loop would lose or repeat most."""
    wine = module("pytorch_loop", "wine", monkeypatch)
    settings = {"momentum": 0.9, "epochs": 5}
    whole = study.run_once(wine.train, settings, seed=4).curve["val/loss"]
    saves, save = [], os.replace

    def dies(source: str, target: Path) -> None:
        if len(saves) == last_saved:
            raise Killed
        saves.append(save(source, target))

    with monkeypatch.context() as patch:
        patch.setattr(wine.os, "replace", dies)
        with pytest.raises(Killed):
            study.run_once(wine.train, settings, seed=4, folder=tmp_path)
    resumed = study.run_once(wine.train, settings, seed=4, folder=tmp_path).curve["val/loss"]
    assert list(resumed.index) == list(range(last_saved + 1, 6))
    assert resumed.equals(whole[last_saved:])


@pytest.mark.filterwarnings("ignore")
def test_lightning_lets_the_search_stop_a_trial(monkeypatch):
    needs_lightning()
    cancer = module("lightning_callbacks", "cancer", monkeypatch)
    told = []

    def stop_at_two(epoch: int, *_: object) -> None:
        told.append(epoch)
        if epoch == 2:
            raise Stopped

    workload = FunctionWorkload(cancer.train, "cancer:train")
    with pytest.raises(Stopped):
        workload.train(Run(seed=1, _send=stop_at_two), workload.complete({}))
    assert told == [1, 2]


def start(file: Path, folder: Path, *options: str) -> subprocess.Popen:
    """The command of the overview in `folder`."""
    code = "import sys; from study.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": ""}
    return subprocess.Popen(
        [sys.executable, "-c", code, "run", str(file), *options],
        cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
def test_one_command_in_an_empty_folder_gives_a_verdict(tmp_path):
    """Of the trainer with callbacks; the next test runs the plain loop."""
    needs_lightning()
    file = EXAMPLES / "lightning_callbacks" / "dropout.yaml"
    process = start(file, tmp_path, "--set", "search.trials_per_arm=1")
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    (folder,) = (tmp_path / "studies").iterdir()
    verdict(folder, out)


def verdict(folder: Path, out: str) -> None:
    """The study has one, in the terminal and in a report."""
    report = json.loads((folder / "report" / "report.json").read_text())
    (claim,) = report["claims"]
    assert re.search(rf"^{claim['id']}: {claim['verdict'].capitalize()}: ", out, re.M)
    assert (folder / "report" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_study_killed_at_random_moments_ends_with_the_same_results(tmp_path, monkeypatch):
    """SIGKILL to the command, after a random number of trainings and a random delay.

    Trainings of 60 epochs, so that some are under way, with a checkpoint, when it happens. The
    results are those of one training after the other, too, without Ray.
    """
    changes = ["trial.epochs=60", "search.trials_per_arm=2"]
    longer = [word for change in changes for word in ("--set", change)]
    without_ray(monkeypatch)
    undisturbed = study.run_study(
        MOMENTUM, overrides=changes, storage=tmp_path / "whole", quiet=True
    ).folder
    folder, draws = tmp_path / "studies" / "killed", random.Random(5)
    options = [*longer, "--name", "killed"]
    for count in sorted(draws.sample(range(1, 26), KILLS)):
        process = start(MOMENTUM, tmp_path, *options)
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if len(list((folder / "runs").rglob("*.json"))) >= count:
                time.sleep(draws.uniform(0, 0.3))
                break
            time.sleep(0.01)
        process.kill()
        said = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, said  # it was still at work
        assert len(list((folder / "runs").rglob("*.json"))) >= count, said
        options = [*longer, "--name", "killed", "--resume"]
    process = start(MOMENTUM, tmp_path, *options)
    out, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    verdict(folder, out)
    for name in ("results.csv", "winners.json"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()
