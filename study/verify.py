"""Do the numbers of a study's report follow from what its runs logged?"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from analysis.report import analyse, differences
from study.faults import StudyError
from study.folder import Folder
from study.importance import importances
from study.ledger import RESULT_COLUMNS, RUN_COLUMNS, Ledger, result_rows
from study.spec import Study
from study.tables import Winners, confirmations, run_rows


def verify(folder: Folder, provenance: dict[str, Any]) -> list[str]:
    """Compute everything again from the files of the single runs, and say what differs.

    Checks the design's and the winners' hashes, every row of `results.csv` and every number of
    `report.json`.

    Args:
        folder: of the study.
        provenance: what the report was given.

    Raises:
        StudyError: there is no report to verify.
    """
    file = folder.report / "report.json"
    if not file.exists():
        raise StudyError(f"{folder.path} has no report yet\n  try: python -m study.report NAME")
    study = folder.load()
    found = list(_hashes(folder))
    winners = folder.winners() if study.search else {arm: {} for arm in study.arms}
    if winners is None:
        raise StudyError(
            f"{folder.winners_json} is missing: what was to be confirmed is not known\n"
            "  try: restore it, or let the study.run command with --resume choose again"
        )
    if not folder.results_csv.exists() or not folder.runs_csv.exists():
        raise StudyError(
            f"{folder.path} lacks results.csv or runs.csv\n"
            "  try: the study.run command with --resume, which writes them again"
        )
    endings = [e for _, e in confirmations(folder, study, winners or {}) if e]
    rows = [",".join(map(str, row)) for row in result_rows(endings)]
    logged = folder.results_csv.read_text().splitlines()
    found += list(_rows(logged, [",".join(RESULT_COLUMNS), *rows]))
    found += list(_other_configs(folder, study, winners or {}))
    found += list(_runs(folder, study, winners or {}))
    report = json.loads(file.read_text())
    again = analyse(
        folder.results_csv,
        plan=folder.study_yaml,
        runs=folder.runs_csv,
        provenance=provenance,
        importance=importances(study, Ledger(folder.path)),
    )
    return found + [f"report.json: {line}" for line in differences(report, again)]


def _hashes(folder: Folder) -> Iterator[str]:
    if folder.hash() != folder.computed_hash():
        yield "study.yaml: the design differs from the one that its hash was taken of"


def _other_configs(folder: Folder, study: Study, winners: Winners) -> Iterator[str]:
    for job, ending in confirmations(folder, study, winners):
        if ending and ending.job.config != job.config:
            yield f"{job.key}: was run with other settings than the winner's"


def _runs(folder: Folder, study: Study, winners: Winners) -> Iterator[str]:
    """Rows of runs.csv against the ledger, but for the MLflow ids, which MLflow gave."""
    at = RUN_COLUMNS.index("mlflow_run_id")
    with folder.runs_csv.open(newline="") as file:
        logged = [[*row[:at], *row[at + 1 :]] for row in csv.reader(file)]
    computed = [list(map(str, row)) for row in (RUN_COLUMNS, *run_rows(folder, study, winners, {}))]
    without = [[*row[:at], *row[at + 1 :]] for row in computed]
    for number, (was, now) in enumerate(zip_longest(logged, without, fillvalue=None), 1):
        if was != now:
            yield f"runs.csv:{number}: differs from what the run logged"


def _rows(logged: list[str], computed: list[str]) -> Iterator[str]:
    for number, (was, now) in enumerate(zip_longest(logged, computed, fillvalue="nothing"), 1):
        if was != now:
            yield f"results.csv:{number}: {was} is logged as {now}"
