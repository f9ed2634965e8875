"""How long does a large report take, and how much memory? `python benchmarks/report.py`

Makes a study's tables up, writes the report in a process of its own, and prints that process's
wall-clock seconds and peak memory, Python's start included. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent
SIZES = {
    "default study": (3, 2, 8, 24),
    "large": (3, 5, 20, 100),
}  # arms, conditions, seeds, epochs


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--size", nargs=4, type=int, metavar=("ARMS", "CONDITIONS", "SEEDS", "EPOCHS"),
        help="another study than the two of the table",
    )  # fmt: skip
    given = parser.parse_args()
    sizes = {"given": tuple(given.size)} if given.size else SIZES
    print("| study | arms × conditions × seeds × epochs | rows | seconds | peak MB |")
    print("|---|---|---:|---:|---:|")
    for name, size in sizes.items():
        with tempfile.TemporaryDirectory() as scratch:
            rows = write_tables(Path(scratch), *size)
            seconds, peak = measured(Path(scratch))
        print(f"| {name} | {' × '.join(map(str, size))} | {rows:,} | {seconds:.1f} | {peak:,.0f} |")


def write_tables(folder: Path, arms: int, conditions: int, seeds: int, epochs: int) -> int:
    """A plan and results with three final metrics and three curves per run; the rows of results."""
    numbers = np.random.default_rng(0)
    names = [f"arm_{i}" for i in range(arms)]
    places = [f"condition_{i}" for i in range(conditions)]
    ends = {
        (arm, place, seed): 0.6 + 0.02 * i - 0.03 * j + numbers.normal(0, 0.01)
        for i, arm in enumerate(names) for j, place in enumerate(places) for seed in range(seeds)
    }  # fmt: skip
    curves = pd.DataFrame(
        [(*run, epoch) for run in ends for epoch in range(1, epochs + 1)],
        columns=["arm", "condition", "seed", "epoch"],
    )
    reached = np.repeat(list(ends.values()), epochs) * (1 - np.exp(-curves["epoch"] / epochs * 4))
    scores = (reached + numbers.normal(0, 0.005, len(curves))).clip(0, 1)
    finals = pd.DataFrame(ends.keys(), columns=["arm", "condition", "seed"])
    parts = [
        curves.assign(metric="val/knn_top1", value=scores),
        curves.assign(metric="views", value=curves["epoch"] * 2594),
        curves.assign(metric="train/loss", value=5 - reached),
    ]
    for metric in ("test/knn_top1", "test/linear_top1", "test/linear_top5"):
        values = np.array(list(ends.values())) + numbers.normal(0, 0.005, len(ends))
        parts.append(finals.assign(metric=metric, value=values.clip(0, 1)))
    table = pd.concat(parts, ignore_index=True)
    table.to_csv(folder / "results.csv", index=False)
    claim = f"{{id: C, better: {names[-1]}, than: {names[0]}, metric: test/linear_top1}}"
    (folder / "plan.yaml").write_text(
        f"claims: [{claim}]\nmargin: 0.005\n"
        f"arms: {{{', '.join(f'{name}: {{}}' for name in names)}}}\n"
        f"conditions: {{{', '.join(f'{place}: {{}}' for place in places)}}}\n"
    )
    return len(table)


def measured(folder: Path) -> tuple[float, float]:
    """Seconds and peak resident megabytes of the report's command."""
    command = [sys.executable, "-m", "analysis.report", "results.csv", "--plan", "plan.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        told = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(told.decode())
    return time.perf_counter() - began, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
