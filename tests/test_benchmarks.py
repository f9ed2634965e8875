"""Do the benchmark scripts run? Their figures are not tested: nothing is timed here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("script", "options", "rows"),
    [
        ("augmentations.py", ["--batch", "16", "--repeats", "1"], 4),
        ("training.py", ["--images", "128", "--repeats", "1", "--workers", "0"], 2),
        ("seeds_together.py", ["--batch", "4", "--seeds", "2", "--repeats", "1"], 1),
        ("report.py", ["--size", "2", "2", "4", "3"], 1),
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
