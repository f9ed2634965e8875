"""The command `python -m analysis.report`: units and places are taken as the user means them."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest
from closed_pipe import closed_pipe

from analysis.report import main


def table(scale: float) -> pd.DataFrame:
    scores = {"a": [0.70, 0.72, 0.71, 0.69, 0.73, 0.70], "b": [0.74, 0.75, 0.76, 0.74, 0.77, 0.75]}
    return pd.DataFrame(
        [
            {"arm": arm, "seed": seed, "metric": "test/top1", "value": scale * value}
            for arm, values in scores.items()
            for seed, value in enumerate(values)
        ]
    )


def report(tmp_path, scale: float, *options: str) -> dict:
    file, out = tmp_path / f"{scale}.csv", tmp_path / f"out{scale}"
    table(scale).to_csv(file, index=False)
    assert main([str(file), "--out", str(out), *options]) == 0
    return json.loads((out / "report.json").read_text())


def test_percent_scales_scores_and_margin_alike(tmp_path):
    fractions = report(tmp_path, 1, "--margin", "0.005")
    percents = report(tmp_path, 100, "--margin", "0.5", "--percent")
    first, second = (r["comparisons"][0] for r in (fractions, percents))
    assert first["verdict"] == second["verdict"] == "better"
    assert abs(first["mean_difference"] - second["mean_difference"]) < 1e-9
    assert abs(first["p_tost"] - second["p_tost"]) < 1e-9
    assert percents["design"]["margin"] == 0.005


def test_a_place_that_cannot_be_written_is_reported(tmp_path, capsys):
    file = tmp_path / "t.csv"
    table(1).to_csv(file, index=False)
    assert main([str(file), "--out", str(file)]) == 2
    told = capsys.readouterr().err
    assert "cannot be written" in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_reader_that_leaves_early_ends_it_quietly(tmp_path):
    table(1).to_csv(tmp_path / "t.csv", index=False)
    command = [sys.executable, "-m", "analysis.report", str(tmp_path / "t.csv"),
               "--out", str(tmp_path / "out")]  # fmt: skip
    with closed_pipe() as pipe:
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 141
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    assert (tmp_path / "out" / "report.html").exists()
