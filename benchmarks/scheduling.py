"""What does a trial of the platform cost beyond its training? `python benchmarks/scheduling.py`

From a finished study's own records: the slots' time minus the trainings' own seconds, per
training. Give a study's folder, or let the smoke study be run in a scratch folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of a finished study")
    parser.add_argument("--slots", type=int, default=2, help="trainings at a time (2)")
    args = parser.parse_args()
    if args.folder:
        print(overhead(args.folder, args.slots))
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "study.run", str(ROOT / "search_spaces" / "smoke.yaml")],
            cwd=scratch,
            check=True,
        )
        print(overhead(Path(scratch) / "studies" / "smoke", args.slots))


def overhead(folder: Path, slots: int) -> str:
    """Seconds of slot time per training that were not spent training, start-up included."""
    files = sorted((folder / "runs").rglob("*.json"))
    trained = 0.0
    for file in files:
        records = json.loads(file.read_text())["records"]
        trained += records[-1]["metrics"]["seconds"] if records else 0.0
    entries = [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]
    began = datetime.fromisoformat(next(e["at"] for e in entries if "session" in e))
    ended = datetime.fromtimestamp(max(f.stat().st_mtime for f in files), tz=began.tzinfo)
    wall = (ended - began).total_seconds()
    cost = (wall * slots - trained) / len(files)
    return (
        f"{len(files)} trainings, {wall:.0f} s with {slots} slots, {trained:.0f} s of training: "
        f"{cost:.2f} s of slot time per training beside it, start-up of Ray included"
    )


if __name__ == "__main__":
    main()
