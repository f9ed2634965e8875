"""The report of a finished or unfinished study: `python -m study.report NAME`."""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Optuna and MLflow are imported

import argparse  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from analysis.broken_pipe import run  # noqa: E402
from analysis.report import one_line_verdicts  # noqa: E402
from study.errors import StudyError  # noqa: E402
from study.records.folder import Folder  # noqa: E402
from study.reporting.provenance import provenance_of  # noqa: E402
from study.reporting.study_report import report_on  # noqa: E402
from study.reporting.verify import verify  # noqa: E402
from study.storage.object_store import is_address, shown  # noqa: E402

MOST_SHOWN = 50


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
    found = verify(folder, provenance_of(folder))
    for line in found[:MOST_SHOWN]:
        print(line)
    if len(found) > MOST_SHOWN:
        print(f"... and {len(found) - MOST_SHOWN} more")
    print(f"{len(found)} differences" if found else "every number follows from the logged runs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run(main))
