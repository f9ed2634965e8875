"""Execution in this process, without Ray: one job after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from study.execution.dispatcher import Dispatcher, Work, default_work
from study.execution.protocols import Monitor, Source
from study.workload import Stopped


def execute_here(
    source: Source,
    *,
    monitors: Sequence[Monitor] = (),
    work: Work | None = None,
    gpus: float = 0.0,
) -> None:
    """As `execute`, one job after the other in this process and without Ray: for tests.

    `gpus` is the share that jobs believe to have; nothing is reserved.
    """
    conductor = Dispatcher(source, monitors, threads=1, gpus=gpus)
    while (job := conductor.start("here")) is not None:
        with contextlib.suppress(Stopped):
            (work or default_work())(job.plain(), _report_here(conductor))
        conductor.raise_if_broken()  # `work` takes whatever is raised for the job's own fault
        conductor.end("here", lost=None)


def _report_here(conductor: Dispatcher) -> Callable[[dict[str, Any]], None]:
    def report(result: dict[str, Any]) -> None:
        with conductor.guarded():
            stop = conductor.result("here", result)
        if stop:
            raise Stopped

    return report
