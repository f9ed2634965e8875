"""Execution under Ray Tune, which starts workers, gives them jobs, and restarts those that die.

What runs next and what is stopped is decided by the phase's `Source`, whose memory is on disk;
Tune's own snapshots are never read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import ray
from ray import tune
from ray.tune import (
    Callback,
    CheckpointConfig,
    FailureConfig,
    PlacementGroupFactory,
    RunConfig,
    TuneConfig,
)
from ray.tune.error import TuneError
from ray.tune.search import Searcher

from study.errors import Paused
from study.execution.dispatcher import STARTS, Dispatcher, Work, default_work
from study.execution.protocols import Monitor, Source
from study.execution.ray_cluster import end_worker, own_node_alive
from study.execution.resources import Share
from study.execution.watchdog import STOP_WITHIN_S, Stopping, watching
from study.workload import Stopped

CLEAN_UP_WITHIN_S = 30.0  # for a function that was stopped

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
    own_process: bool = True,
    patience: float | Literal["auto", "none"] = "auto",
    warn: Callable[[str], None] = lambda text: None,
    stopping: Stopping | None = None,
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
        monitors: hear of everything and decide nothing.
        patience: seconds of silence after which a training's worker is ended, see `Patience`.
        warn: is told of such workers.
        own_process: whether this process may be ended where Ray has died and a call hangs.
        work: what a worker does with a job, if not `study.execution.worker.run_job`.
        stopping: asks to end before all have: what is under way saves its state first.

    Raises:
        KeyboardInterrupt: it was asked to stop.
    """
    remaining = source.remaining()
    if not remaining:
        return
    conductor = Dispatcher(source, monitors, threads=share.cpus, gpus=share.gpus, patience=patience)
    stopping = stopping or Stopping()
    with _registered(conductor), stopping.heeding():
        tuner = tune.Tuner(
            tune.with_resources(_trainable(work), _resources(share.cpus)),
            tune_config=TuneConfig(
                search_alg=_TuneSearcher(),
                num_samples=(STARTS + 1) * remaining,  # at most; memory may run out once, too
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
                callbacks=[_EndHanging(warn), _EndInOrder(stopping, folder, warn)],
            ),
        )
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        try:
            with watching(own_node_alive(), Paused(_RAY_DIED), own_process=own_process):
                tuner.fit()
        except TuneError:  # depending on where, Tune wraps an error of ours or swallows it
            conductor.raise_if_broken()
            raise
    conductor.raise_if_broken()


def _resources(cpus: int) -> Callable[[dict[str, Any]], PlacementGroupFactory]:
    """What Ray sets aside for a trial, by its config."""

    def resources(config: dict[str, Any]) -> PlacementGroupFactory:
        gpus = config["job"]["gpus"]
        return PlacementGroupFactory([{"CPU": cpus} | ({"GPU": gpus} if gpus else {})])

    return resources


def _trainable(work: Work | None) -> Callable[[dict[str, Any]], None]:
    """What a worker runs: a plain job with Ray's report."""

    def trainable(config: dict[str, Any]) -> None:
        ended, stopped = threading.Event(), False

        def report(result: dict[str, Any]) -> None:
            nonlocal stopped
            try:
                tune.report(result)
            except SystemExit:  # how Tune ends the thread of a function that it has stopped
                stopped = True
                threading.Thread(target=_end_if_stuck, args=(ended,), daemon=True).start()
                raise Stopped from None

        context = ray.get_runtime_context()
        try:
            report({"process": (os.getpid(), context.get_node_id())})
            (work or default_work())(config["job"], report, threads=int(config["threads"]))
        except Stopped:
            if stopped:  # else the whole study stops, and Tune takes this for the function's end
                sys.exit(0)
        finally:
            ended.set()

    return trainable


def _end_if_stuck(ended: threading.Event) -> None:
    """End this worker if a stopped function does not return: its slot is waited for."""
    if not ended.wait(CLEAN_UP_WITHIN_S):
        os._exit(1)


# Tune pickles searchers and stop functions, and a source holds connections. So Tune gets empty
# shells, and the one conductor of this process is found here.
_ACTIVE: list[Dispatcher] = []


@contextlib.contextmanager
def _registered(conductor: Dispatcher) -> Iterator[None]:
    _ACTIVE.append(conductor)
    try:
        yield
    finally:
        _ACTIVE.remove(conductor)


class _EndHanging(Callback):
    """Asks the conductor in each step of Tune which workers hang, and ends them."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        conductor = _ACTIVE[-1]
        with conductor.guarded():
            for process, text in conductor.hanging():
                self._warn(text)
                end_worker(*process)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles callbacks and never reads them again


class _EndInOrder(Callback):
    """Lets trainings save their state and end when the study is asked to stop; then Tune ends."""

    def __init__(self, stopping: Stopping, folder: Path, warn: Callable[[str], None]) -> None:
        self._stopping, self._warn = stopping, warn
        self._file = folder / "ray" / "stopping"
        self._file.unlink(missing_ok=True)  # of a driver that was killed
        self._since: float | None = None
        self._usr1 = signal.getsignal(signal.SIGUSR1)

    def setup(self, **info: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._usr1)  # which Tune has just taken for itself

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if not self._stopping.asked:
            return
        conductor = _ACTIVE[-1]
        if self._since is None:
            self._since, conductor.stopping = time.monotonic(), True
            with contextlib.suppress(OSError):  # on a full disk they could not save either
                self._file.touch()
            if not conductor.idle():
                self._warn(
                    f"stopping: trainings save their state, for at most {STOP_WITHIN_S:.0f} s; "
                    "Ctrl-C ends them at once"
                )
        if time.monotonic() - self._since > STOP_WITHIN_S and not conductor.idle():
            self._warn(
                "some trainings did not report in time; they go on from what they saved before"
            )
            raise KeyboardInterrupt

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _stop(trial_id: str, result: dict[str, Any]) -> bool:
    conductor = _ACTIVE[-1]
    with conductor.guarded():
        return conductor.result(trial_id, result)


class _TuneSearcher(Searcher):
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
