"""The rows of `runs.csv` and `results.csv`, from jobs and their endings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from analysis.spreadsheet import inert
from study.records.job import Job
from study.records.ledger import Ending

RUN_COLUMNS = (
    "phase", "arm", "condition", "replicate", "seed", "trial", "status", "epochs",
    "planned_epochs", "seconds", "value", "test_reads", "config", "mlflow_run_id", "failure",
    "environment",
)  # fmt: skip
RESULT_COLUMNS = (
    "arm", "condition", "replicate", "seed", "epoch", "metric", "value", "correct", "total",
)  # fmt: skip
# Wall-clock time differs from run to run; results.csv holds only what a seed determines.
_NOT_RESULTS = frozenset({"seconds"})


def result_rows(endings: Iterable[Ending]) -> Iterator[tuple[Any, ...]]:
    """Rows of results.csv: per epoch the curves, without an epoch the final figures.

    A test metric has a final figure, and a curve over the epochs that claims are about.
    Only runs that finished have final figures; the curves of the others are kept as far as they
    went.
    """
    for ending in endings:
        job = ending.job
        at = (job.arm, job.condition, _or_empty(job.replicate), job.seed)
        for record in ending.records:
            for metric, value in sorted(record.metrics.items()):
                if metric in _NOT_RESULTS:
                    continue
                final = metric.startswith("test/")
                correct, total = record.counts.get(metric, ("", ""))
                yield (*at, "" if final else record.epoch, metric, repr(value), correct, total)
            for before in record.earlier:
                for metric, value in sorted(before.metrics.items()):
                    counted = before.counts.get(metric, ("", ""))
                    yield (*at, before.epoch, metric, repr(value), *counted)


def run_row(
    job: Job, status: str, ending: Ending | None, metric: str, run_ids: Mapping[str, str]
) -> tuple[Any, ...]:
    """One row of runs.csv for a job that is planned, running or ended."""
    value = ending.last(metric) if ending else None
    return (
        job.phase, job.arm, job.condition, _or_empty(job.replicate), job.seed,
        _or_empty(job.number),
        ending.outcome if ending else status,
        ending.epochs if ending else 0,
        _or_empty(job.planned_epochs),
        f"{ending.seconds:.3f}" if ending else 0,
        "" if value is None else repr(value),
        ending.test_reads if ending else 0,
        json.dumps(job.config, sort_keys=True),
        run_ids.get(job.key, ""),
        inert(ending.failure) if ending else "",
        json.dumps(_environment(ending), sort_keys=True) if ending else "",
    )  # fmt: skip


def _environment(ending: Ending) -> dict[str, str]:
    """Where a run was computed, and with which code of the user's own; {} of earlier versions."""
    code = ending.stamp.get("code")
    return dict(ending.environment) | ({"own code": code} if code else {})


def _or_empty(value: int | None) -> int | str:
    return "" if value is None else value
