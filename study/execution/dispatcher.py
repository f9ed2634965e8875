"""The dispatcher between a phase and what executes its jobs: each epoch once and in order."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from study.execution.protocols import Monitor, Source
from study.execution.watchdog import Patience
from study.records import Ending, Environment, Job, Record, record_from

Work = Callable[..., None]  # as `run_job`
Process = tuple[int, str]  # its number, and the id of its node
STARTS = 4  # of a job whose worker is lost before any report


def default_work() -> Work:
    """The work of a real study; imported where it is done, as it takes PyTorch."""
    from study.execution.worker import run_job

    return run_job


class Dispatcher:
    """Passes what happens between Tune and a source, each epoch once and in order."""

    def __init__(
        self,
        source: Source,
        monitors: Sequence[Monitor],
        *,
        threads: int,
        gpus: float,
        patience: float | Literal["auto", "none"] = "auto",
    ) -> None:
        self._patience, self._processes = Patience(patience), dict[str, Process]()
        self._source, self._monitors, self.threads, self._gpus = source, monitors, threads, gpus
        self._jobs: dict[str, Job] = {}
        self._records: dict[str, list[Record]] = {}
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._environments: dict[str, Environment] = {}
        self._broken: BaseException | None = None
        self._short: set[str] = set()  # trials whose memory ran out, to be run again
        self._again: deque[tuple[Job, list[Record]]] = deque()
        self._awaited: set[str] = set()  # second runs that have not been heard of yet
        self._lost: Counter[str] = Counter()  # workers lost before any report, by job
        self.stopping = False  # nothing new starts, and what ends early goes on another time

    def start(self, trial_id: str) -> Job | None:
        """The next job, with its share of GPUs; None while others must end or begin first."""
        if self.stopping:
            return None
        if self._again:
            job, self._records[trial_id] = self._again.popleft()
            self._awaited.add(trial_id)
        elif self._awaited or not self._source.remaining():
            # A job of the usual share would take the room that a larger one is waiting for.
            return None
        else:
            found = self._source.next()
            if found is None:
                return None
            job = found if found.gpus is not None else replace(found, gpus=self._gpus or None)
            self._records[trial_id] = []
            for monitor in self._monitors:
                monitor.on_start(job)
        self._jobs[trial_id] = job
        self._patience.started(trial_id, job.arm, job.phase, job.planned_epochs)
        return job

    def exhausted(self) -> bool:
        if self._broken is not None:
            return True
        if self.stopping:
            return self.idle()
        # A running job may still have to be run again.
        return self._source.remaining() == 0 and not self._again and not self._jobs

    def idle(self) -> bool:
        """Whether no job is under way."""
        return not self._jobs

    def result(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the job should stop."""
        self._awaited.discard(trial_id)
        if "process" in result:
            self._processes[trial_id] = result["process"]
        if "records" not in result or trial_id in self._outcomes:
            return False
        job, known = self._jobs[trial_id], self._records[trial_id]
        # A restarted worker reports the epochs before its checkpoint again.
        last = known[-1].epoch if known else -1
        sent = [record_from(data) for data in result["records"]]
        new = [record for record in sent if record.epoch > last]
        if result["outcome"] == "finished" and sent and not new:
            # With a budget of seconds a slower second worker may end before an epoch that the
            # first one sent: its last record, which alone has the final figures, counts.
            known[:] = [r for r in known if r.epoch < sent[-1].epoch] + [sent[-1]]
        known += new
        self._note_environment(trial_id, result.get("environment", {}))
        self._patience.heard(trial_id, sent[-1].epoch if sent else 0, ended=bool(result["outcome"]))
        # A job that has ended by itself is not stopped any more.
        stop = bool(new) and self._source.on_records(job, new) and not result["outcome"]
        for monitor in self._monitors:
            monitor.on_records(job, new)
        self._short.discard(trial_id)  # a worker that was lost since may have done better
        if result.get("out_of_memory") and not stop and _may_be_retried(job):
            self._short.add(trial_id)
        elif result["outcome"]:
            self._outcomes[trial_id] = (result["outcome"], result["failure"])
        elif stop:
            self._outcomes[trial_id] = ("stopped", "")
        return stop

    def hanging(self) -> list[tuple[Process, str]]:
        """The processes of trainings that have been silent for too long, with what to say of them.

        To be asked in each step of the loop that calls `result`.
        """
        self._patience.tick()
        return [
            (
                self._processes.pop(trial_id),
                f"{self._jobs[trial_id].key}: no sign of life for {silent:.0f} s; its worker is "
                "ended, and the training goes on from its checkpoint\n"
                "  try: --set resources.patience=SECONDS if trainings of this study may be silent "
                "for longer",
            )
            for trial_id, silent in self._patience.overdue()
            if trial_id in self._processes
        ]

    def _note_environment(self, trial_id: str, now: Environment) -> None:
        """A training whose worker was lost may have gone on upon another machine."""
        before = self._environments.get(trial_id, now)
        self._environments[trial_id] = {
            name: value if before.get(name) == value else "several" for name, value in now.items()
        }

    def end(self, trial_id: str, *, lost: str | None) -> None:
        job = self._jobs.pop(trial_id, None)
        self._patience.ended(trial_id)
        if job is None:
            return
        self._awaited.discard(trial_id)
        if self.stopping and trial_id not in self._outcomes:
            del self._records[trial_id]
            return
        if trial_id in self._short:  # to everybody else it is still running
            self._short.discard(trial_id)
            self._again.append((_with_more(job), self._records.pop(trial_id)))
            return
        if lost and not self._records[trial_id] and self._lost[job.key] < STARTS - 1:
            # Hardly the job's doing: its worker may still have been held by the one before it.
            self._lost[job.key] += 1
            self._again.append((job, self._records.pop(trial_id)))
            return
        outcome, failure = self._outcomes.pop(trial_id, ("failed", lost or "the worker vanished"))
        ran_on = self._environments.pop(trial_id, {})
        ending = Ending(job, outcome, tuple(self._records.pop(trial_id)), failure, ran_on)
        self._source.on_end(ending)
        for monitor in self._monitors:
            monitor.on_end(ending)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep an error of ours: Tune would bury it in its own log and report something else."""
        try:
            yield
        except BaseException as error:
            self._broken = self._broken or error
            raise

    def raise_if_broken(self) -> None:
        if self._broken is not None:
            raise self._broken from None


def _may_be_retried(job: Job) -> bool:
    """Whether more room can be made for the job if its memory runs out."""
    return bool(job.gpus) and not job.retried


def _with_more(job: Job) -> Job:
    """The job once more, with fewer neighbours on its card if it had any."""
    gpus = min(1.0, 2 * job.gpus) if job.gpus < 1 else job.gpus
    return replace(job, gpus=gpus, retried=f"out of memory with {job.gpus:g} of a GPU")
