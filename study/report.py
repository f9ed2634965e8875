"""What does a finished, or unfinished, study show? `python -m study.report NAME`"""

from __future__ import annotations

from study.environment import quieten

quieten()

import argparse  # noqa: E402
import csv  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from analysis.command import run  # noqa: E402
from analysis.report import one_line_verdicts, write_report  # noqa: E402
from analysis.table import TableError  # noqa: E402
from study.faults import StudyError  # noqa: E402
from study.folder import Folder  # noqa: E402
from study.importance import importances  # noqa: E402
from study.ledger import Ledger  # noqa: E402
from study.store import is_address, shown  # noqa: E402
from study.verify import verify  # noqa: E402

MOST_SHOWN = 50


def report_on(folder: Folder, *, out: Path | None = None) -> dict[str, Any]:
    """Write the report of a study's folder from what was logged there, and log the look.

    Args:
        folder: of the study, with `results.csv`.
        out: where to; the folder's `report` if not given.

    Raises:
        StudyError: nothing has been confirmed yet, or a file is damaged or cannot be written.
    """
    study = folder.load()
    seeds = _seeds(folder.results_csv)
    if not seeds:
        raise StudyError(
            f"the study `{study.name}` has no results yet: its confirmation has not begun\n"
            "  try: the study.run command that started it, with --resume"
        )
    try:
        folder.note_session(look=True, seeds=seeds)
        return write_report(
            folder.results_csv,
            plan=folder.study_yaml,
            runs=folder.runs_csv,
            provenance=_provenance(folder),
            importance=importances(study, Ledger(folder.path)),
            out=out or folder.report,
        )
    except TableError as error:
        raise StudyError(str(error)) from None
    except OSError as error:
        raise StudyError(
            f"{error.filename or out}: the report cannot be written: {error.strerror}\n"
            "  try: --out with a folder that you may write to"
        ) from None


def _seeds(results: Path) -> list[int]:
    """The seeds of which there is any result."""
    if not results.exists():
        return []
    try:
        with results.open(newline="") as rows:
            return sorted({int(row["seed"]) for row in csv.DictReader(rows)})
    except (ValueError, KeyError, TypeError, csv.Error):
        raise StudyError(
            f"{results} is damaged: it is not what study.run wrote\n"
            "  try: the study.run command with --resume, which writes it again from the runs"
        ) from None


def _provenance(folder: Folder) -> dict[str, Any]:
    sessions = [entry for entry in folder.session_log() if {"at", "command"} <= entry.keys()]
    planned = set(folder.load().confirm.seed_list)
    # A look counts against the verdicts if the plan has grown since: at the planned number of
    # seeds, reading the report any number of times changes nothing.
    looks = {
        tuple(entry["seeds"]): entry["at"]
        for entry in folder.session_log()
        if entry.get("look") and set(entry["seeds"]) != planned
    }
    last = sessions[-1] if sessions else {}
    places = [entry["mlflow"] for entry in folder.session_log() if "mlflow" in entry]
    changed = sorted({json.dumps(entry.get("versions", {}), sort_keys=True) for entry in sessions})
    note = {"note": "sessions ran with different versions of packages"} if len(changed) > 1 else {}
    return note | {
        "commands": [f"{entry['at']}  {entry['command']}" for entry in sessions],
        "versions": last.get("versions", {}),
        "hardware": last.get("hardware", {}),
        "hash": folder.hash(),
        "study id": folder.identity(),
        "test split": _test_reads(folder),
        "mlflow": places[-1] if places else {},
        "looks": [{"at": at, "seeds": len(seeds)} for seeds, at in looks.items()],
    }


def _test_reads(folder: Folder) -> str:
    """How often the test split was read, and by whom."""
    try:
        with folder.runs_csv.open(newline="") as file:
            rows = [(row["phase"], int(row["test_reads"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):  # damage is told elsewhere
        return "not known"
    confirming = [reads for phase, reads in rows if phase == "confirm"]
    searching = sum(reads for phase, reads in rows if phase != "confirm")
    return (
        f"reads in the confirmation: {sum(confirming)}, at most {max(confirming, default=0)} per "
        f"run, after its last epoch; in the search: {searching}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m study.report", description="Write a study's report again."
    )
    parser.add_argument("name", help="of the study")
    parser.add_argument("--storage", default="studies", metavar="DIR", help="(studies)")
    parser.add_argument(
        "--verify", action="store_true", help="compute every number again and say which differ"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the study's report/")
    args = parser.parse_args(argv)
    try:
        if is_address(args.storage):
            raise StudyError(
                f"--storage {shown(args.storage)} is an address; reports are made in a folder\n"
                "  try: the study.run command that made it, with --resume: it writes the report "
                "again and says which folder of this machine the study is in"
            )
        folder = Folder(Path(args.storage) / args.name)
        if args.verify:
            return _verify(folder)
        report = report_on(folder, out=args.out)
    except StudyError as error:
        print(error, file=sys.stderr)
        return 2
    for line in one_line_verdicts(report):
        print(line)
    print(f"\nreport:  {(args.out or Path(args.storage) / args.name / 'report') / 'report.html'}")
    return 0


def _verify(folder: Folder) -> int:
    folder.load()
    found = verify(folder, _provenance(folder))
    for line in found[:MOST_SHOWN]:
        print(line)
    if len(found) > MOST_SHOWN:
        print(f"... and {len(found) - MOST_SHOWN} more")
    print(f"{len(found)} differences" if found else "every number follows from the logged runs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run(main))
