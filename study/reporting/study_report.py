"""The report of a study, from what its folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.errors import TableError
from analysis.report import KEPT, write_report
from study.errors import StudyError
from study.records import Ledger
from study.reporting.importance import importances
from study.reporting.looks import note_look
from study.reporting.provenance import provenance_of
from study.storage import Folder


def report_on(folder: Folder, *, out: Path | None = None) -> dict[str, Any]:
    """Write the report of a study's folder from what was logged there, and log the look.

    Args:
        folder: of the study, with `results.csv`.
        out: where to; the folder's `report` if not given.

    Raises:
        StudyError: nothing has been confirmed yet, or a file is damaged or cannot be written.
    """
    study = folder.load()
    try:
        if not note_look(folder, by="the report"):
            raise StudyError(
                f"the study `{study.name}` has no results yet: its confirmation has not begun\n"
                "  try: the study.run command that started it, with --resume"
            )
        return write_report(
            folder.results_csv,
            plan=folder.study_yaml,
            runs=folder.runs_csv,
            provenance=provenance_of(folder),
            importance=importances(study, Ledger(folder.path, forgiving=True)),
            kept=folder.path / KEPT,
            out=out or folder.report,
        )
    except TableError as error:
        raise StudyError(str(error)) from None
    except OSError as error:
        raise StudyError(
            f"{error.filename or out}: the report cannot be written: {error.strerror}\n"
            "  try: --out with a folder that you may write to"
        ) from None
