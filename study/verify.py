"""Do the numbers of a study's report follow from what its runs logged?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from analysis.report import analyse, differences
from study.faults import StudyError
from study.folder import Folder
from study.ledger import RESULT_COLUMNS, digest, result_rows
from study.tables import confirmations


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
    endings = [e for _, e in confirmations(folder, study, winners or {}) if e]
    rows = [",".join(map(str, row)) for row in result_rows(endings)]
    logged = folder.results_csv.read_text().splitlines()
    found += list(_rows(logged, [",".join(RESULT_COLUMNS), *rows]))
    report = json.loads(file.read_text())
    again = analyse(
        folder.results_csv, plan=folder.study_yaml, runs=folder.runs_csv, provenance=provenance
    )
    return found + [f"report.json: {line}" for line in differences(report, again)]


def _hashes(folder: Folder) -> Iterator[str]:
    if folder.hash() != folder.computed_hash():
        yield "study.yaml: the design differs from the one that its hash was taken of"
    if folder.winners_json.exists():
        data = json.loads(folder.winners_json.read_text())
        if data["hash"] != digest(data["winners"]):
            yield "winners.json: the winners differ from those that its hash was taken of"


def _rows(logged: list[str], computed: list[str]) -> Iterator[str]:
    for number, (was, now) in enumerate(zip_longest(logged, computed, fillvalue="nothing"), 1):
        if was != now:
            yield f"results.csv:{number}: {was} is logged as {now}"
