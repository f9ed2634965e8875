"""The worker: carries out one job in any process, with Ray or without, and reports how it went."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from study.errors import listing
from study.execution.checkpoints import Checkpoint
from study.masking import masked
from study.records import Environment, Job, Record, environment_here, job_from
from study.workload import Diverged, Figures, ReportError, Run, Stopped, Workload, load_workload

Report = Callable[[dict[str, Any]], None]

# What libraries below PyTorch say instead of raising its OutOfMemoryError.
_CUDA_SIGNS = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
FLUSH_EVERY_S = 1.0  # a report costs the driver some 10 ms, an epoch may take no longer


def run_job(data: Mapping[str, Any], report: Report, *, threads: int = 1) -> None:
    """Train and report until the job ends one way or another; never raises for the job's faults.

    Each report is `{"records": [...], "environment": {...}, "outcome": None}`; the last one's
    outcome is "finished", "diverged" or "failed" with `failure`, a text, and `out_of_memory` if
    that was the cause. A job that is stopped with its whole study keeps its checkpoint. One that
    finds its checkpoint continues from it and reports the epochs before it again: the driver may
    not have heard of them.

    Args:
        data: `Job.plain()`.
        report: called with plain data; raises Stopped where the driver stops the job.
        threads: CPU threads, as many as cores were assigned.

    Raises:
        Stopped: the driver has stopped the job, or stops the study.
    """
    job = job_from(dict(data))
    _reset_gpu_statistics()
    checkpoint = Checkpoint(job)
    environment = environment_here(threads=threads, gpus=bool(job.gpus))
    outbox, to_be_continued = _Outbox(report, job, checkpoint, environment), False
    try:
        _train(job, outbox, checkpoint, threads)
        outbox.check_complete()
    except Diverged as diverged:
        outbox.flush("diverged", str(diverged))
    except SystemExit as error:
        outbox.flush("failed", f"{traceback.format_exc()}the function called sys.exit({error})")
    except Exception as error:  # what an arm raises is a row of the report, not the study's end
        note = _memory_note(error, job)
        # With more room it continues from its checkpoint, see `study.execution.dispatcher`.
        to_be_continued = bool(note and job.gpus and not job.retried)
        outbox.flush("failed", traceback.format_exc() + note, out_of_memory=bool(note))
    else:
        outbox.flush("finished")
    finally:
        _empty_gpu_cache()  # this process is used again, others may be on the same card
        stopped = isinstance(sys.exc_info()[1], Stopped)
        if not (to_be_continued or outbox.paused) and (stopped or sys.exc_info()[0] is None):
            checkpoint.remove()


def _train(job: Job, outbox: _Outbox, checkpoint: Checkpoint, threads: int) -> None:
    workload = load_workload(job.workload, job.beside, job.declared)
    workload = workload.extended([job.config], workload_loader(job.beside))
    outbox.resume(checkpoint.load())
    try:
        workload.train(_run(job, outbox, checkpoint, threads, workload), job.config)
    except _Gap:
        # What the function saved is ahead of what it has reported: those epochs would be missing.
        checkpoint.remove()
        outbox.resume([])
        workload.train(_run(job, outbox, checkpoint, threads, workload), job.config)
    outbox.raise_if_stopped()


def workload_loader(beside: str) -> Callable[[str], Any]:
    """Imports the user's own parts of a workload, beside the study file first."""
    from study.workload import load_object

    return lambda name: load_object(name, beside)


def _run(
    job: Job, outbox: _Outbox, checkpoint: Checkpoint, threads: int, workload: Workload
) -> Run:
    return Run(
        seed=job.seed if job.training_seed is None else job.training_seed,
        arm=job.arm,
        condition=job.condition,
        phase=job.phase,
        replicate=job.replicate,
        read_test=job.phase == "confirm",
        test_epochs=job.test_epochs,
        to_keep=job.to_keep,
        threads=threads,
        prepared=job.data,
        _device=lambda: _device(job),
        _home=checkpoint.folder,
        _kept=Path(job.kept),
        _send=outbox.send,
        _known=[*job.declared, "seconds"] if job.declared else None,
        _fractions={n for n, spec in job.declared.items() if spec.get("unit") == "fraction"},
        _first_epoch=workload.first_epoch,
        _spent_before=outbox.spent_before,
        _on_folder=outbox.keep,
        _stopping=outbox.stopping,
    )


class _Gap(BaseException):
    """The function has continued after an epoch that it never reported."""


class _Outbox:
    """Gathers records, so that short epochs do not wait for the driver one by one.

    Records of an earlier process are sent again as the function passes their epochs, so that each
    epoch counts once, with the figures that were reported first.
    """

    def __init__(
        self, report: Report, job: Job, checkpoint: Checkpoint, environment: Environment
    ) -> None:
        self._report, self._job, self._checkpoint = report, job, checkpoint
        self._environment = environment
        self._waiting: list[dict[str, Any]] = []
        self._all: list[Record] = []
        self._earlier: list[Record] = []
        self._fresh, self._stopped, self._ended = True, False, False
        self._stop_file = Path(job.stop_file)
        self._overdue = self._told = False  # to stop with the study, to the function's knowledge
        self.paused = False  # the function has ended before its training
        self._sent = time.monotonic()

    def resume(self, earlier: list[Record]) -> None:
        """Begin with the records of an earlier process; none begins anew."""
        self._earlier, self._all, self._waiting, self._fresh = earlier, [], [], True
        self._resumed = bool(earlier) or self._checkpoint.folder.is_dir()

    def spent_before(self, epoch: int) -> float:
        """Seconds of an earlier process up to an epoch that is the first of this one."""
        before = [r.metrics.get("seconds", 0.0) for r in self._earlier if r.epoch < epoch]
        return before[-1] if before else 0.0

    def keep(self) -> None:
        """Keep the records in the checkpoint folder from now on."""
        self._checkpoint.begin([*self._earlier, *self._all] if self._fresh else self._all)

    def send(
        self,
        epoch: int,
        metrics: dict[str, float],
        counts: dict[str, tuple[int, int]],
        last: bool = False,
        earlier: Sequence[Figures] = (),
    ) -> None:
        """Pass on what the function reports; raises Stopped where the driver stops the job."""
        if self._fresh:
            self._check_continuity(epoch)
        self._fresh = False
        while self._earlier and self._earlier[0].epoch < epoch:
            self._add(self._earlier.pop(0))
        record = Record(epoch, metrics, counts, tuple(Record(*figures) for figures in earlier))
        known = self._earlier.pop(0) if self._earlier and self._earlier[0].epoch == epoch else None
        if known is not None and known.metrics.keys() == metrics.keys():
            record = known
        else:
            self._checkpoint.add(record)
        self._add(record, last)
        if not self._ended:
            if self._overdue:
                self._stopped = self.paused = True
                raise Stopped
            self._overdue = self._stop_file.exists()  # after it, the function may save its state

    def stopping(self) -> bool:
        """Whether the study is being stopped; a function that knows may return."""
        self._told = self._stop_file.exists()
        return self._told

    def _check_continuity(self, epoch: int) -> None:
        if not self._earlier:
            if self._resumed and epoch > 1:
                raise _Gap
            return
        last = self._earlier[-1].epoch
        step = last - self._earlier[-2].epoch if len(self._earlier) > 1 else 1
        if epoch > last + max(1, step):
            raise _Gap

    def _add(self, record: Record, last: bool = False) -> None:
        """Keep a record; the last one goes with the outcome, when nobody can stop the job."""
        self._all.append(record)
        self._waiting.append(record.plain())
        last = last or record.epoch >= (self._job.planned_epochs or float("inf"))
        self._ended = last
        due = time.monotonic() - self._sent > FLUSH_EVERY_S
        if not last and (due or record.epoch in self._job.decide_at):
            self.flush(None)

    def check_complete(self) -> None:
        """Refuse an end without any report, or without a metric that decides.

        Raises:
            ReportError: says which.
        """
        if self._fresh:  # a finished training that died before it could say so
            for record in self._earlier:
                self._add(record)
        if not self._all:
            raise ReportError(
                "the function returned without reporting any epoch; try: run.report(epoch, "
                "{metric: value}) after each epoch"
            )
        reported = {name for record in self._all for name in record.metrics}
        missing = [name for name in self._job.required if name not in reported]
        if missing:
            raise ReportError(
                f"the function ended without reporting {listing(missing)}, which the study asks "
                f"for; it reported {listing(sorted(reported - {'seconds'}))}"
            )

    def flush(self, outcome: str | None, failure: str = "", *, out_of_memory: bool = False) -> None:
        """Report what has been gathered."""
        waiting, self._waiting = self._waiting, []
        self._sent = time.monotonic()
        try:
            self._report(
                {
                    "records": waiting,
                    "outcome": outcome,
                    "failure": masked(failure),
                    "out_of_memory": out_of_memory,
                    "environment": self._environment,
                }
            )
        except Stopped:
            self._stopped = True
            raise

    def raise_if_stopped(self) -> None:
        """For a function that has swallowed the exception, or has returned because it was told."""
        self.paused = self.paused or (self._told and not self._ended)
        if self._stopped or self.paused:
            raise Stopped


def _torch() -> Any:
    """PyTorch, if the function has imported it."""
    return sys.modules.get("torch")


def _device(job: Job) -> str:
    torch = _torch()
    visible = torch.cuda.is_available() if torch else True
    return "cuda" if job.gpus and visible else "cpu"


def _reset_gpu_statistics() -> None:
    torch = _torch()
    if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()  # of the job that this process ran before


def _empty_gpu_cache() -> None:
    torch = _torch()
    if torch and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


def _memory_note(error: Exception, job: Job) -> str:
    """A last line that says so if memory ran out, and what had been needed by then."""
    text, torch = str(error), _torch()
    cuda = type(error).__name__ == "OutOfMemoryError" or any(s in text for s in _CUDA_SIGNS)
    if not (cuda or isinstance(error, MemoryError) or "can't allocate memory" in text):
        return ""
    size = job.config.get("batch_size")
    given = [f"batch_size {size}"] * (size is not None)
    given += [f"{job.gpus:g} of a GPU"] if job.gpus else []
    again = f", the second time ({job.retried} before)" if job.retried else ""
    with_ = (f" with {' and '.join(given)}" if given else "") + again
    if not cuda:
        return f"out of memory{with_}"
    initialized = torch is not None and torch.cuda.is_initialized()
    reached = torch.cuda.max_memory_reserved() / 2**30 if initialized else 0.0
    asked = re.search(r"Tried to allocate ([\d.]+ [KMG]iB)", text)
    more = f" reserved and {asked[1]} more asked for" if asked else " reserved"
    fewer = "" if (job.gpus or 0) >= 1 else "fewer trainings per card (a larger resources.gpus) or "
    return (
        f"out of GPU memory after {reached:.1f} GiB{more}{with_}; try: {fewer}a smaller batch_size"
    )
