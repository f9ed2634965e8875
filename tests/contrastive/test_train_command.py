"""Does `python -m contrastive.train` run one training and refuse nonsense politely?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from closed_pipe import closed_pipe

from contrastive.train import main

TINY = ["--dataset", "digits", "--train-limit", "60", "--batch_size", "20", "--epochs", "2"]


def test_one_training_prints_its_epochs_and_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "figures.json"
    assert main([*TINY, "--loss", "debiased_pos", "--seed", "3", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["0", "1", "2"]
    assert "test/linear_top1" in lines[-1]
    assert "test/linear_top1" not in lines[-2]
    records = json.loads(out.read_text())
    assert [record["epoch"] for record in records] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--loss", "debiased_pso"], ["--loss debiased_pso", "try: --loss debiased_pos"]),
        (["--temperature", "0"], ["--temperature 0", "greater than 0"]),
        (["--epochs", "many"], ["--epochs many", "integer"]),
        (["--loss", "debiased_pos", "--tau-plus", "0"], ["teaches nothing"]),
        (["--temperature", "-1", "--epochs", "0"], ["--temperature -1", "--epochs 0"]),
        (["--beta", "3"], ["--beta", "contrastive does not take it", "allowed with hard_neg"]),
        (["--out", "/nowhere/at/all.json"], ["--out", "no folder /nowhere/at"]),
        (["--device", "abacus"], ["--device abacus", "allowed: cpu"]),
        (["--batch-size", "500"], ["batch_size is 500", "60 images"]),
        (["--dataset", "cifar10", "--dataset-path", "/nowhere/at/all"], ["/nowhere/at/all"]),
    ],
)
def test_wrong_input_exits_with_2_and_one_clear_message(options, parts, capsys):
    assert main([*TINY, *options]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told
    assert "Traceback" not in told


def test_the_help_lists_every_option_once(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out.split("options:")[1]
    assert listed.count("--temperature X") == listed.count("--tau-plus X") == 1


def test_divergence_exits_with_1(capsys):
    assert main([*TINY, "--learning-rate", "1e30"]) == 1
    assert "diverged" in capsys.readouterr().err


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_it_quietly():
    command = [sys.executable, "-m", "contrastive.train", *TINY]
    with closed_pipe() as pipe:
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.slow
def test_a_reader_that_has_left_is_noticed_by_the_last_flush_too():
    code = (
        "import sys; from contrastive import train; "
        "train.main = lambda: print('not flushed') or 0; sys.exit(train._command())"
    )
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", code]
    with closed_pipe() as pipe:
        ended = subprocess.run(
            command, stdout=pipe, stderr=subprocess.PIPE, check=False, env=buffered
        )
    assert (ended.returncode, ended.stderr) == (141, b"")
