"""What a trial of the platform costs beyond its training: `python benchmarks/scheduling.py`.

From a finished study's own records: the slots' time minus the trainings' own seconds, per
training. Give a study's folder, or let the smoke study be run in a scratch folder.

    python benchmarks/scheduling.py --own --repeats 3    # the built-in workload beside a function

runs the smoke study in turns with a study of a user's own function that has as many trials, rungs
and runs, and trainings as long; the ratio is the median over pairs of neighbouring runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parent.parent
SMOKE = ROOT / "search_spaces" / "smoke.yaml"

FUNCTION = """\
import time


def train(run, *, rate: float = 0.5, kind: str = "a", epochs: int = 4):
    for epoch in range(1, epochs + 1):
        time.sleep({seconds})
        metrics = {{"val/error": rate / epoch + 0.01 * run.seed}}
        if epoch == epochs and run.read_test:
            metrics["test/error"] = metrics["val/error"]
        run.report(epoch, metrics)
"""


class Overhead(NamedTuple):
    """What was spent in a study."""

    trainings: int
    wall_s: float
    trained_s: float
    slots: int

    @property
    def per_training_s(self) -> float:
        """Slot time per training that was not spent training, the start of Ray included."""
        return (self.wall_s * self.slots - self.trained_s) / self.trainings

    def __str__(self) -> str:
        return (
            f"{self.trainings} trainings, {self.wall_s:.0f} s with {self.slots} slots, "
            f"{self.trained_s:.0f} s of training: {self.per_training_s:.2f} s of slot time per "
            "training beside it, start-up of Ray included"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of a finished study")
    parser.add_argument("--slots", type=int, default=2, help="trainings at a time (2)")
    parser.add_argument("--own", action="store_true", help="compare with a function of the user's")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs (3)")
    args = parser.parse_args()
    if args.folder:
        print(overhead(args.folder, args.slots))
    elif args.own:
        compare(args.slots, args.repeats)
    else:
        print(run_study(SMOKE, args.slots))


def compare(slots: int, repeats: int) -> None:
    """Run both kinds in turns and print each pair, then the median ratio."""
    ratios = []
    for repeat in range(repeats):
        built_in = run_study(SMOKE, slots)
        with tempfile.TemporaryDirectory() as folder:
            own = run_study(own_study(Path(folder), built_in), slots)
        ratios.append(own.per_training_s / built_in.per_training_s)
        print(f"{repeat + 1} built-in: {built_in}\n{repeat + 1} own:      {own}", flush=True)
    print(f"own / built-in: {statistics.median(ratios):.2f} (median of {repeats} pairs, "
          f"{min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip


def own_study(folder: Path, like: Overhead) -> Path:
    """A study of a function with as many trials and runs as the smoke study, and as long ones."""
    smoke = yaml.safe_load(SMOKE.read_text())
    epochs = smoke["trial"]["epochs"]
    seconds = like.trained_s / like.trainings / epochs
    (folder / "function.py").write_text(FUNCTION.format(seconds=seconds))
    first, second = smoke["arms"]
    study = {
        "name": "own",
        "workload": "function:train",
        "metrics": {"val/error": {"better": "lower"}, "test/error": {"better": "lower"}},
        "trial": {"epochs": epochs},
        "arms": {first: {"kind": "a"}, second: {"kind": "b"}},
        "search": {
            "trials_per_arm": smoke["search"]["trials_per_arm"],
            "space": {"rate": {"low": 0.1, "high": 1.0}},
            "early_stopping": smoke["search"]["early_stopping"],
        },
        "confirm": {"seeds": smoke["confirm"]["seeds"]},
        "claims": [{"id": "C", "better": first, "than": second, "metric": "test/error"}],
    }
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    return file


def run_study(file: Path, slots: int) -> Overhead:
    """Run a study in a scratch folder."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "study.run", str(file)],
            cwd=scratch,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        name = yaml.safe_load(file.read_text())["name"]
        return overhead(Path(scratch) / "studies" / name, slots)


def overhead(folder: Path, slots: int) -> Overhead:
    """What a finished study cost beside its trainings."""
    files = sorted((folder / "runs").rglob("*.json"))
    trained = 0.0
    for file in files:
        records = json.loads(file.read_text())["records"]
        trained += records[-1]["metrics"]["seconds"] if records else 0.0
    entries = [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]
    began = datetime.fromisoformat(next(e["at"] for e in entries if "session" in e))
    ended = datetime.fromtimestamp(max(f.stat().st_mtime for f in files), tz=began.tzinfo)
    return Overhead(len(files), (ended - began).total_seconds(), trained, slots)


if __name__ == "__main__":
    main()
