"""The tables `runs.csv`, `results.csv` and `pareto.csv`, from what the ledger knows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from study.design import Search, Study
from study.phases import confirmation_jobs, front
from study.records import (
    RESULT_COLUMNS,
    RUN_COLUMNS,
    Ending,
    Job,
    Ledger,
    result_rows,
    run_row,
    write_table,
)
from study.storage import Folder
from study.workload import Settings

PARETO, PARETO_COLUMNS = "pareto.csv", ("arm", "replicate", "trial", "winner")

Frozen = Sequence[tuple[Study, Mapping[str, Settings | None]]]  # of `Folder.frozen`


def write_tables(folder: Folder, study: Study, run_ids: Mapping[str, str]) -> None:
    """Write the tables of a study's folder, whole.

    Args:
        folder: of the study.
        study: the study.
        run_ids: MLflow run ids by job key.
    """
    frozen = folder.frozen(study)
    write_table(folder.runs_csv, RUN_COLUMNS, run_rows(folder, study, frozen, run_ids))
    if study.search and len(study.search.metrics) > 1:
        columns, rows = pareto_columns(study.search), pareto_rows(folder, study, frozen)
        write_table(folder.path / PARETO, columns, rows)
    endings = [ending for _, ending in confirmations(folder, frozen) if ending]
    write_table(folder.results_csv, RESULT_COLUMNS, result_rows(endings))


def run_rows(
    folder: Folder, study: Study, frozen: Frozen, run_ids: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    """The rows of runs.csv: trials, rechecks, then the planned runs of the confirmation.

    Those of an arm without a winner count as failed: what the search did not find is missing from
    its arm's scores, and no reason to leave out the other arms'.
    """
    metric = study.shown_metric
    ledger = Ledger(folder.path, forgiving=True)
    searched = [(e.job, e) for phase in ("search", "recheck") for e in ledger.all(phase)]
    jobs = [*searched, *confirmations(folder, frozen)]
    rows = [run_row(job, "planned", ending, metric, run_ids) for job, ending in jobs]
    return rows + [row for part, winners in frozen for row in _unconfirmed(part, winners)]


def _unconfirmed(part: Study, winners: Mapping[str, Settings | None]) -> Iterator[tuple[Any, ...]]:
    lost = [arm for arm, won in winners.items() if won is None]
    for seed, condition, arm in itertools.product(part.confirm.seed_list, part.conditions, lost):
        known = {
            "phase": "confirm", "arm": arm, "condition": condition, "seed": seed,
            "status": "failed", "epochs": 0, "seconds": 0, "test_reads": 0, "config": "{}",
            "failure": "no trial of its search finished",
        }  # fmt: skip
        known |= {} if part.number is None else {"replicate": part.number}
        yield tuple(known.get(column, "") for column in RUN_COLUMNS)


def pareto_columns(search: Search) -> tuple[str, ...]:
    """The columns of pareto.csv."""
    return (*PARETO_COLUMNS, *search.metrics, "config")


def pareto_rows(folder: Folder, study: Study, frozen: Frozen) -> list[tuple[Any, ...]]:
    """The rows of pareto.csv: of each arm the trials that no other one of it dominates."""
    assert study.search is not None
    ledger = Ledger(folder.path, forgiving=True)
    return [
        (
            arm, "" if part.number is None else part.number, ending.job.number,
            str(ending.job.drawn == winners.get(arm)).lower(),
            *map(repr, values), json.dumps(ending.job.config, sort_keys=True),
        )
        for part, winners in frozen
        for endings in [list(ledger.all("search", part.number))]
        for arm in study.arms
        for ending, values in front((e for e in endings if e.job.arm == arm), study)
    ]  # fmt: skip


def confirmations(folder: Folder, frozen: Frozen) -> list[tuple[Job, Ending | None]]:
    """The planned runs of the confirmation, each with its ending if it has ended."""
    ledger = Ledger(folder.path, forgiving=True)
    jobs = [
        job for part, winners in frozen for job in confirmation_jobs(part, winners, folder.path)
    ]
    return [(job, ledger.read(job.key)) for job in jobs]
