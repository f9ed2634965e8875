"""Verification: whether the numbers of a report follow from what the runs logged."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import TableError
from analysis.report import analyse
from analysis.report_json import differences
from study.design import Study
from study.errors import StudyError, first_line
from study.phases import REJECTED, judged, open_read_only, optuna_name, same_training
from study.records import RESULT_COLUMNS, RUN_COLUMNS, Ending, Ledger, key_start, result_rows
from study.reporting.importance import importances
from study.reporting.looks import breaks
from study.reporting.tables import (
    PARETO,
    Frozen,
    confirmations,
    pareto_columns,
    pareto_rows,
    run_rows,
)
from study.storage import Folder


def verify_study(folder: Folder, provenance: dict[str, Any]) -> list[str]:
    """Compute everything again from the files of the single runs, and say what differs.

    Checks the design's and the winners' hashes, the log of sessions and looks, the records of the
    trials against Optuna's storage (`search.db`), every row of `runs.csv`, `results.csv` and, with
    several metrics, `pareto.csv` against the records, and every number of `report.json`.

    Args:
        folder: of the study.
        provenance: what the report was given.

    Raises:
        StudyError: there is no report to verify.
    """
    file = folder.report / "report.json"
    if not file.exists():
        raise StudyError(
            f"{folder.path} has no report yet, or lost it: there is no report/report.json\n"
            f"  try: python -m study.report {folder.path.name}"
        )
    study = folder.load()
    found = breaks(folder)
    frozen = folder.frozen(study)
    _refuse_incomplete(folder, frozen)
    endings = [e for _, e in confirmations(folder, frozen) if e]
    found += _different_rows(folder.results_csv, RESULT_COLUMNS, result_rows(endings))
    found += _different_rows(folder.runs_csv, RUN_COLUMNS, run_rows(folder, study, frozen, {}))
    found += _other_configs(folder, study, frozen)
    found += _pareto(folder, study, frozen)
    found += _search(folder, study)
    try:
        report = json.loads(file.read_text())
    except ValueError:
        report = None
    if not isinstance(report, dict):
        return [*found, "report.json: is damaged"]
    try:
        again = analyse(
            folder.results_csv,
            plan=folder.study_yaml,
            runs=folder.runs_csv,
            provenance=provenance,
            importance=importances(study, Ledger(folder.path, forgiving=True)),
        )
    except TableError as error:
        return [*found, f"report.json: cannot be computed again: {first_line(error)}"]
    return found + [f"report.json: {line}" for line in differences(report, again)]


def _refuse_incomplete(folder: Folder, frozen: Frozen) -> None:
    """Raises StudyError where a file is missing without which there is nothing to compare."""
    if not any(winners for _, winners in frozen):
        raise StudyError(
            f"{folder.winners_json} is missing: what was to be confirmed is not known\n"
            "  try: restore it, or let the study.run command with --resume choose again"
        )
    if not (folder.path / "runs").exists():
        raise StudyError(
            f"{folder.path} lacks runs/, the records of its single runs: there is nothing to verify"
            " its report with\n  try: the folder in which study.run kept the study"
        )
    if not folder.results_csv.exists() or not folder.runs_csv.exists():
        raise StudyError(
            f"{folder.path} lacks results.csv or runs.csv\n"
            "  try: the study.run command with --resume, which writes them again"
        )


def _other_configs(folder: Folder, study: Study, frozen: Frozen) -> Iterator[str]:
    for job, ending in confirmations(folder, frozen):
        if ending and not same_training(ending.job, job, study.trains):
            yield f"{job.key}: was run with other settings than the winner's"


def _pareto(folder: Folder, study: Study, frozen: Frozen) -> Iterator[str]:
    if study.search and len(study.search.metrics) > 1:
        rows = pareto_rows(folder, study, frozen)
        yield from _different_rows(folder.path / PARETO, pareto_columns(study.search), rows)


def _search(folder: Folder, study: Study) -> Iterator[str]:
    """The records of the trials against Optuna's storage, which both tell the whole search."""
    if study.search is None:
        return
    file = folder.path / "search.db"
    if not file.exists():
        yield "search.db: is missing, so that trials cannot be checked"
        return
    records = {
        (key_start("search", e.job.arm, e.job.replicate), e.job.number): e
        for e in Ledger(folder.path, forgiving=True).all("search")
    }
    try:
        trials = {
            (key_start("search", arm, part.number), trial.number): trial
            for part in study.replicates
            for arm in study.arms
            for trial in _trials(file, part, arm)
        }
    except (SQLAlchemyError, StorageInternalError):
        yield "search.db: is damaged"
        return
    for start, number in sorted(trials.keys() | records.keys()):
        key, at = f"{start}{number:04d}", (start, number)
        if at not in records:
            yield f"{key}: search.db has this trial, and its record is gone or damaged"
        elif at not in trials:
            yield f"{key}: search.db does not have this trial"
        else:
            yield from _other_trial(key, trials[at], records[at], study)


def _trials(file: Path, study: Study, arm: str) -> list[FrozenTrial]:
    """Ended trials of an arm, without draws that were never tried. Writes nothing."""
    try:
        known = optuna.load_study(study_name=optuna_name(study, arm), storage=open_read_only(file))
    except KeyError:
        return []
    trials = known.get_trials(deepcopy=False)
    return [t for t in trials if t.state.is_finished() and REJECTED not in t.user_attrs]


def _other_trial(key: str, trial: FrozenTrial, ending: Ending, study: Study) -> Iterator[str]:
    search = study.search
    assert search is not None
    if trial.params != ending.job.drawn:
        yield f"{key}: was run with other settings than search.db has"
    if trial.state == TrialState.COMPLETE:
        figures = judged(ending, study) if ending.outcome == "finished" else None
        if figures != trial.values:
            names, was = ", ".join(search.metrics), figures or f"nothing ({ending.outcome})"
            yield f"{key}: was judged by {names} as {was}, but as {trial.values} in search.db"
    metric = search.metric
    logged = {r.epoch: r.metrics.get(metric) for r in ending.records}
    timed = study.trains.timed(ending.job.config) and ending.outcome == "finished"
    for epoch, value in trial.intermediate_values.items():
        if timed and epoch >= ending.epochs:
            continue  # reported by a worker that was lost; the one that took over ended before
        if logged.get(epoch) != value:
            was = logged.get(epoch)
            yield f"{key}: {metric} at epoch {epoch} is {was}, but {value} in search.db"


def _different_rows(
    file: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> Iterator[str]:
    """Rows of a table against those computed anew, matched by what says which run they are of."""
    width = next(columns.index(name) for name in ("status", "winner", "value") if name in columns)
    computed = {tuple(map(str, row[:width])): list(map(str, row)) for row in rows}
    try:
        with file.open(newline="") as table:
            header, *logged = [*csv.reader(table)] or [[]]
    except FileNotFoundError:
        yield f"{file.name}: is missing"
        return
    except (UnicodeDecodeError, csv.Error):
        yield f"{file.name}: is damaged"
        return
    if header != list(columns):
        yield f"{file.name}:1: has other columns than {', '.join(columns)}"
        return
    for number, row in enumerate(logged, 2):
        now = computed.pop(tuple(row[:width]), None)
        if now is None:
            run = _named(row[:width])
            yield f"{file.name}:{number}: {run} was logged by no run, or stands twice"
        for column, was, is_ in zip(columns, row, now or row, strict=False):
            # MLflow gave the ids, no run logged them.
            if was != is_ and column != "mlflow_run_id":
                yield f"{file.name}:{number}: {column} is {was}, but was logged as {is_}"
    for key in computed:
        yield f"{file.name}: lacks {_named(key)}, which was logged"


def _named(cells: Iterable[str]) -> str:
    return " ".join(cell for cell in cells if cell)
