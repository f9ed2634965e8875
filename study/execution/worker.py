"""How does a worker carry out one job? Plain code: runs without Ray, in any process."""

from __future__ import annotations

import contextlib
import re
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from contrastive.config import TrainConfig
from contrastive.data import load_prepared
from contrastive.training.loop import Diverged, EpochRecord, train
from study.execution.checkpoints import load_checkpoint, save_checkpoint
from study.records.job import Job, Record, job_from

Report = Callable[[dict[str, Any]], None]

CHECKPOINT_EVERY_S = 30.0
# What libraries below PyTorch say instead of raising its OutOfMemoryError.
_CUDA_SIGNS = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
FLUSH_EVERY_S = 1.0  # a report costs the driver some 10 ms, an epoch may take no longer


def run_job(data: Mapping[str, Any], report: Report, *, threads: int = 1) -> None:
    """Train and report until the job ends one way or another; never raises for the job's faults.

    Each report is `{"records": [...], "outcome": None}`; the last one's outcome is "finished",
    "diverged" or "failed" with `failure`, a text, and `out_of_memory` if that was the cause. A job
    that finds its checkpoint goes on from it and reports the epochs before it again: the driver may
    not have heard of them.

    Args:
        data: `Job.plain()`.
        report: called with plain data; may not return if the driver stops the job.
        threads: CPU threads for PyTorch, as many as cores were assigned.
    """
    job = job_from(dict(data))
    torch.set_num_threads(threads)
    if not torch.cuda.is_available():
        # Some CPU kernels are exact only when asked to be; on GPUs it would cost speed, and
        # results are not promised to the last bit there.
        torch.use_deterministic_algorithms(True, warn_only=True)
    elif torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()  # of the job that this process ran before
    outbox, to_be_continued = _Outbox(report, job), False
    try:
        for record, last in _records(job, outbox):
            outbox.add(record, last=last)
    except Diverged as diverged:
        outbox.flush("diverged", str(diverged))
    except Exception as error:  # what an arm raises is a row of the report, not the study's end
        note = _memory_note(error, job)
        # With more room it goes on from its checkpoint, see `study.execution.ray_tune`.
        to_be_continued = bool(note and job.gpus and not job.retried)
        outbox.flush("failed", traceback.format_exc() + note, out_of_memory=bool(note))
    else:
        outbox.flush("finished")
    if not to_be_continued:
        with contextlib.suppress(OSError):
            Path(job.checkpoint).unlink(missing_ok=True)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # this process is used again, others may be on the same card


def _memory_note(error: Exception, job: Job) -> str:
    """A last line that says so if memory ran out, and what had been needed by then."""
    text = str(error)
    cuda = isinstance(error, torch.cuda.OutOfMemoryError) or any(s in text for s in _CUDA_SIGNS)
    if not (cuda or isinstance(error, MemoryError) or "can't allocate memory" in text):
        return ""
    share = f" and {job.gpus:g} of a GPU" if job.gpus else ""
    again = f", the second time ({job.retried} before)" if job.retried else ""
    given = f"with batch_size {job.config['batch_size']}{share}{again}"
    if not cuda:
        return f"out of memory {given}"
    reached = torch.cuda.max_memory_reserved() / 2**30 if torch.cuda.is_initialized() else 0.0
    asked = re.search(r"Tried to allocate ([\d.]+ [KMG]iB)", text)
    more = f" reserved and {asked[1]} more asked for" if asked else " reserved"
    fewer = "" if (job.gpus or 0) >= 1 else "fewer trainings per card (a larger resources.gpus) or "
    return (
        f"out of GPU memory after {reached:.1f} GiB{more} {given}; try: {fewer}a smaller batch_size"
    )


def _records(job: Job, outbox: _Outbox) -> Any:
    config = TrainConfig(**job.config)
    state, before = load_checkpoint(job)
    for record in before:
        outbox.add(record, last=False)
    saved = time.monotonic()
    # On another node the driver's cache may be missing: then the data are looked for there.
    here = bool(job.data) and Path(job.data).is_dir()
    dataset = load_prepared(Path(job.data)) if here else None
    reads = job.phase == "confirm"
    for epoch in train(config, job.seed, dataset=dataset, state=state, read_test=reads):
        record = _plain(epoch)
        before.append(record)
        if time.monotonic() - saved > CHECKPOINT_EVERY_S and not epoch.last:
            save_checkpoint(job, epoch.state(), before)
            saved = time.monotonic()
        yield record, epoch.last


class _Outbox:
    """Gathers records, so that short epochs do not wait for the driver one by one."""

    def __init__(self, report: Report, job: Job) -> None:
        self._report, self._job = report, job
        self._waiting: list[dict[str, Any]] = []
        self._sent = time.monotonic()

    def add(self, record: Record, *, last: bool) -> None:
        """Keep a record; the last one goes with the outcome, when nobody can stop the job."""
        self._waiting.append(record.plain())
        due = time.monotonic() - self._sent > FLUSH_EVERY_S
        if not last and (due or record.epoch in self._job.decide_at):
            self.flush(None)

    def flush(self, outcome: str | None, failure: str = "", *, out_of_memory: bool = False) -> None:
        waiting, self._waiting = self._waiting, []
        self._sent = time.monotonic()
        self._report(
            {
                "records": waiting,
                "outcome": outcome,
                "failure": failure,
                "out_of_memory": out_of_memory,
            }
        )


def _plain(record: EpochRecord) -> Record:
    counts = {name: (c.correct, c.total) for name, c in record.counts.items()}
    return Record(record.epoch, record.metrics, counts)
