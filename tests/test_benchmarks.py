"""Do the benchmark scripts run? Their figures are not tested: nothing is timed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent


TINY = ["--images", "128", "--repeats", "1", "--workers", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "rows"),
    [
        ("augmentations.py", ["--batch", "16", "--repeats", "1"], 4),
        ("seeds_together.py", ["--batch", "4", "--seeds", "2", "--repeats", "1"], 1),
        ("report.py", ["--size", "2", "2", "4", "3"], 1),
        ("training.py", [*TINY, "--variants", "float32", "bfloat16", "--goal", "1"], 6),
        (
            "training.py",
            [
                *TINY,
                "--variants",
                "float32",
                "float32+compile",
                "--no-published",
                "--positives",
                "1",
            ],
            2,
        ),
    ],
)
def test_a_benchmark_prints_its_table(script: str, options: list[str], rows: int):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *options],
        capture_output=True, text=True, timeout=200, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + rows
    assert all(re.search(r"\d|not installed", line) for line in lines[1:])
    if "--goal" in options:
        assert re.search(r"M = 4 against M = 1 per view, bfloat16: \d", done.stdout)
        assert re.search(r"1 epochs with kNN after each, small_cnn.*bfloat16: \d", done.stdout)
    if "float32+compile" in options:
        assert re.search(
            r"compiling small_cnn, batch 64, M = 1, float32: \d+ s, saves", done.stdout
        )


def test_the_training_benchmark_draws_its_figure(tmp_path: Path):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import training
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    config = training.TrainConfig(dataset="cifar10")
    rows = [
        training.Row(config, "cpu", name, seconds, 1.0, 2.0, 1000, 4.0 / seconds, 0.5, 2**20)
        for name, seconds in (("float32", 1.0), ("bfloat16+compile", 0.5), ("published", 4.0))
    ]
    training.draw(rows, tmp_path / "t.svg")
    drawn = (tmp_path / "t.svg").read_text()
    for told in ("1,000  4.0×", "2,000  8.0×", "250  1.0×", "small_cnn, batch 64, M = 1"):
        assert told in drawn


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_benchmark_on_a_gpu_that_is_not_there_is_refused():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "training.py"), "--device", "cuda", "--all"],
        capture_output=True, text=True, timeout=100, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no GPU here" in done.stderr
    assert "Traceback" not in done.stderr
