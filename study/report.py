"""The report of a finished or unfinished study: `python -m study.report NAME`."""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Optuna and MLflow are imported

import sys  # noqa: E402
from collections.abc import Mapping, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Annotated, Any  # noqa: E402

import typer  # noqa: E402

from analysis.wording import one_line_verdicts  # noqa: E402
from study.commands import call  # noqa: E402
from study.errors import DONE, FAILED, WRONG_INPUT, StudyError, listing, nearest  # noqa: E402
from study.reporting import provenance_of, report_on, verify_study  # noqa: E402
from study.storage import Folder, is_address, shown  # noqa: E402

MOST_SHOWN = 50
OTHER_VERDICT = 3


def report(
    name: Annotated[str, typer.Argument(help="Of the study.")],
    storage: Annotated[str, typer.Option(metavar="DIR", help="Where studies are kept.")] = (
        "studies"
    ),
    verify_: Annotated[
        bool, typer.Option("--verify", help="Compute every number again and say which differ.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Default: the study's report/.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLAIM=VERDICT",
            help="Exit with 3 where the claim has another verdict; may be repeated.",
        ),
    ] = None,
) -> int:
    """Write a study's report again."""
    try:
        if is_address(storage):
            raise StudyError(
                f"--storage {shown(storage)} is an address; reports are made in a folder\n"
                "  try: the study.run command that made it, with --resume: it writes the report "
                "again and says which folder of this machine the study is in"
            )
        folder = Folder(Path(storage) / name)
        if verify_:
            return _verify(folder)
        found = report_on(folder, out=out)
        others = list(_other_verdicts(found, require or []))
    except StudyError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except BrokenPipeError:
        raise  # the reader of the output has left
    except OSError as error:
        print(
            f"{error.filename or storage}: cannot be read or written: {error.strerror}\n"
            "  try: a copy of the study's folder on another disk, with --storage",
            file=sys.stderr,
        )
        return WRONG_INPUT
    for line in one_line_verdicts(found):
        print(line)
    print(f"\nreport:  {(out or Path(storage) / name / 'report') / 'report.html'}")
    for line in others:
        print(line, file=sys.stderr)
    return OTHER_VERDICT if others else DONE


def _verify(folder: Folder) -> int:
    folder.load()
    found = verify_study(folder, provenance_of(folder))
    for line in found[:MOST_SHOWN]:
        print(line)
    if len(found) > MOST_SHOWN:
        print(f"... and {len(found) - MOST_SHOWN} more")
    print(f"{len(found)} differences" if found else "every number follows from the logged runs")
    return FAILED if found else DONE


def _other_verdicts(found: Mapping[str, Any], require: Sequence[str]) -> list[str]:
    """Claims whose verdict is not the required one.

    Raises:
        StudyError: there is no such claim or verdict.
    """
    verdicts = {str(claim["id"]): claim["verdict"] for claim in found["claims"]}
    known = ("supported", "refuted", "equivalent", "undecided", "invalid")
    others = []
    for text in require:
        claim, _, wanted = text.partition("=")
        if claim not in verdicts or wanted not in known:
            close = nearest(claim, verdicts) or next(iter(verdicts), "F1")
            raise StudyError(
                f"--require {text}: there is no such {'claim' if wanted in known else 'verdict'}\n"
                f"  allowed: {listing(verdicts) or 'no claims'} = {listing(known)}\n"
                f"  try: --require {close}={wanted if wanted in known else known[0]}"
            )
        if verdicts[claim] != wanted:
            others.append(f"required: {claim} {wanted}; the report says: {verdicts[claim]}")
    return others


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return call(report, argv, name="python -m study.report")


if __name__ == "__main__":
    sys.exit(main())
