"""How does Ray Tune carry out the jobs of a phase?

Tune starts, feeds and buries the workers. What runs next and what is stopped is decided by the
phase's `Source`, whose memory is on disk; Tune's own snapshots are never read.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, TuneConfig
from ray.tune.error import TuneError
from ray.tune.search import Searcher

from study.faults import Paused
from study.job import Job, Record, record_from
from study.ledger import Ending
from study.resources import Share, own_node_alive
from study.source import Monitor, Source
from study.watch import watching

Work = Callable[..., None]  # as `run_job`

_RAY_DIED = (
    "Ray on this machine has died (its raylet or its head); what has finished is kept\n"
    "  try: the same command with --resume; on a cluster, once it runs again"
)


def execute(
    source: Source,
    *,
    share: Share,
    folder: Path,
    session: str,
    retries: int,
    monitors: Sequence[Monitor] = (),
    work: Work | None = None,
) -> None:
    """Run jobs until the source has none left and all have ended.

    A job on a GPU whose memory runs out is run once more with twice its share of the card, hence
    with fewer neighbours. One that had a whole card is run once more as it was: other processes'
    memory, and what is left behind by jobs before it, come and go.

    Args:
        source: hands out the jobs and hears what becomes of them.
        share: cores and GPUs per job, and how many at once.
        folder: absolute; Tune writes its own files below `folder/ray`.
        session: a name that no earlier call used in this folder.
        retries: how often a job whose worker was lost is started again.
        monitors: told about everything, never asked.
        work: what a worker does with a job, if not `study.trial.run_job`.
    """
    remaining = source.remaining()
    if not remaining:
        return
    conductor = _Conductor(source, monitors, threads=share.cpus, gpus=share.gpus)
    with _registered(conductor):
        tuner = tune.Tuner(
            tune.with_resources(_trainable(work), _resources(share.cpus)),
            tune_config=TuneConfig(
                search_alg=_Bridge(),
                num_samples=2 * remaining,  # at most: each may be retried once
                max_concurrent_trials=share.slots,
                reuse_actors=True,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=RunConfig(
                name=session,
                storage_path=str(folder / "ray"),
                verbose=0,
                stop=_stop,
                failure_config=FailureConfig(max_failures=retries),
                checkpoint_config=CheckpointConfig(num_to_keep=1),
            ),
        )
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            with watching(own_node_alive(), Paused(_RAY_DIED)):
                tuner.fit()
        except TuneError:  # depending on where, Tune wraps an error of ours or swallows it
            conductor.raise_if_broken()
            raise
    conductor.raise_if_broken()


def execute_here(
    source: Source,
    *,
    monitors: Sequence[Monitor] = (),
    work: Work | None = None,
    gpus: float = 0.0,
) -> None:
    """As `execute`, one job after the other in this process and without Ray: for tests.

    `gpus` is what jobs are told of their share; nobody sets it aside.
    """
    conductor = _Conductor(source, monitors, threads=1, gpus=gpus)
    while (job := conductor.start("here")) is not None:
        with contextlib.suppress(_Stopped):
            (work or _training())(job.plain(), _report_here(conductor))
        conductor.raise_if_broken()  # `work` takes whatever is raised for the job's own fault
        conductor.end("here", lost=None)


class _Stopped(Exception):
    """Unwinds a job that the source has stopped."""


def _report_here(conductor: _Conductor) -> Callable[[dict[str, Any]], None]:
    def report(result: dict[str, Any]) -> None:
        with conductor.guarded():
            stop = conductor.result("here", result)
        if stop:
            raise _Stopped

    return report


def _resources(cpus: int) -> Callable[[dict[str, Any]], PlacementGroupFactory]:
    """What Ray sets aside for a trial, by its config."""

    def resources(config: dict[str, Any]) -> PlacementGroupFactory:
        gpus = config["job"]["gpus"]
        return PlacementGroupFactory([{"CPU": cpus} | ({"GPU": gpus} if gpus else {})])

    return resources


def _trainable(work: Work | None) -> Callable[[dict[str, Any]], None]:
    """What a worker runs: a plain job with Ray's report."""

    def trainable(config: dict[str, Any]) -> None:
        (work or _training())(config["job"], tune.report, threads=int(config["threads"]))

    return trainable


def _training() -> Work:
    """The work of a real study; imported where it is done, as it takes PyTorch."""
    from study.trial import run_job

    return run_job


class _Conductor:
    """Passes what happens between Tune and a source, each epoch once and in order."""

    def __init__(
        self, source: Source, monitors: Sequence[Monitor], *, threads: int, gpus: float
    ) -> None:
        self._source, self._monitors, self.threads, self._gpus = source, monitors, threads, gpus
        self._jobs: dict[str, Job] = {}
        self._records: dict[str, list[Record]] = {}
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._broken: BaseException | None = None
        self._short: set[str] = set()  # trials whose memory ran out, to be run again
        self._again: deque[tuple[Job, list[Record]]] = deque()
        self._awaited: set[str] = set()  # second runs that have not been heard of yet

    def start(self, trial_id: str) -> Job | None:
        """The next job, with its share of GPUs; None while others must end or begin first."""
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
        return job

    def exhausted(self) -> bool:
        if self._broken is not None:
            return True
        retried = self._again or any(_may_be_retried(job) for job in self._jobs.values())
        return self._source.remaining() == 0 and not retried

    def result(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the job should stop."""
        self._awaited.discard(trial_id)
        if "records" not in result or trial_id in self._outcomes:
            return False
        job, known = self._jobs[trial_id], self._records[trial_id]
        # A restarted worker reports the epochs before its checkpoint again.
        last = known[-1].epoch if known else -1
        told = [record_from(data) for data in result["records"]]
        new = [record for record in told if record.epoch > last]
        if result["outcome"] == "finished" and told and not new:
            # With a budget of seconds a slower second worker may end before an epoch that the
            # first one told: its last record, which alone has the final figures, prevails.
            known[:] = [r for r in known if r.epoch < told[-1].epoch] + [told[-1]]
        known += new
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

    def end(self, trial_id: str, *, lost: str | None) -> None:
        job = self._jobs.pop(trial_id, None)
        if job is None:
            return
        self._awaited.discard(trial_id)
        if trial_id in self._short:  # to everybody else it is still running
            self._short.discard(trial_id)
            self._again.append((_with_more(job), self._records.pop(trial_id)))
            return
        outcome, failure = self._outcomes.pop(trial_id, ("failed", lost or "the worker vanished"))
        ending = Ending(job, outcome, tuple(self._records.pop(trial_id)), failure)
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


# Tune pickles searchers and stop functions, and a source holds connections. So Tune gets empty
# shells, and the one conductor of this process is found here.
_ACTIVE: list[_Conductor] = []


@contextlib.contextmanager
def _registered(conductor: _Conductor) -> Iterator[None]:
    _ACTIVE.append(conductor)
    try:
        yield
    finally:
        _ACTIVE.remove(conductor)


def _stop(trial_id: str, result: dict[str, Any]) -> bool:
    conductor = _ACTIVE[-1]
    with conductor.guarded():
        return conductor.result(trial_id, result)


class _Bridge(Searcher):
    """A Tune searcher that asks the conductor."""

    def __init__(self) -> None:
        super().__init__(metric=None, mode=None)

    def suggest(self, trial_id: str) -> Any:
        conductor = _ACTIVE[-1]
        with conductor.guarded():
            if conductor.exhausted():
                return Searcher.FINISHED
            job = conductor.start(trial_id)
            if job is None:
                return None
            return {"job": job.plain(), "threads": conductor.threads}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        conductor = _ACTIVE[-1]
        with conductor.guarded():
            conductor.end(trial_id, lost="the worker was lost" if error else None)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the source's memory is on disk already."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing."""
