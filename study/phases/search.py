"""The search phase: all arms are tuned side by side, with the same budget each.

Optuna's storage is the ledger of the search: starting and resuming are the same path. With one
trial of an arm at a time, what an arm is offered and when its trials stop depend on nothing but
the study file, however many arms run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from study.design import Study, timed, twin_seed
from study.errors import Paused, last_line
from study.phases.arm import ArmSearch
from study.phases.optuna_storage import open_storage
from study.phases.samplers import INDIFFERENT
from study.records import Ending, Job, Ledger, Record, key_start, work
from study.workload import Settings

optuna.logging.set_verbosity(optuna.logging.ERROR)


class SearchSource:
    """Hands out the trials of all arms in turn, and tells Optuna what became of them.

    Args:
        study: with a `search`.
        folder: of the study; holds `search.db`.
        ledger: where endings are kept.
        slots: jobs that run at the same time.
        storage: Optuna's, if it is open already.
    """

    def __init__(
        self,
        study: Study,
        folder: Path,
        ledger: Ledger,
        *,
        slots: int,
        storage: BaseStorage | None = None,
    ) -> None:
        assert study.search is not None
        self._study, self._search, self._ledger = study, study.search, ledger
        self._folder = folder
        storage = storage or open_storage(folder)
        self._arms = {name: ArmSearch(study, name, storage, ledger.design) for name in study.arms}
        self._trials: dict[str, optuna.Trial] = {}  # running jobs, by key
        self._spent = {name: _Spent() for name in study.arms}
        known = set()
        for ending in ledger.all("search", study.number):
            self._spent[ending.job.arm].add(ending)
            known.add(ending.job.key)
        self._exhausted: set[str] = set()
        self._parallel = self._search.parallel_per_arm or math.ceil(slots / len(study.arms))
        # Counted here from now on: asking Optuna every time costs more with every trial.
        self._started = {name: len(arm.started()) for name, arm in self._arms.items()}
        self._again: dict[str, FrozenTrial] = {}  # ended, but their ledger file is lost; by key
        self._orphans = [job for arm in self._arms.values() for job in self._orphans_of(arm)]
        self._orphans += [job for arm in self._arms.values() for job in self._lost(arm, known)]

    def caveats(self) -> list[str]:
        """Why the search is not reproducible, for the user; none if it is."""
        search, found = self._search, []
        if self._parallel > 1:
            found.append(
                "with more slots than arms, trials of one arm run side by side, and what the "
                "search draws depends on their timing; search.parallel_per_arm: 1 makes it exact"
            )
        if timed(self._study, self._study.tuned_under):
            found.append(
                "with a budget of seconds, how far trials get, hence who wins, depends on the "
                "machine and on what else runs there; a budget of views makes it exact"
            )
        if search.budget and search.budget.device_hours is not None:
            found.append(
                "how many trials search.budget.device_hours is enough for depends on measured "
                "seconds, which are never the same twice; search.budget.epochs makes it exact"
            )
        if "seconds" in search.metrics and search.sampler not in INDIFFERENT:
            found.append(
                "what the search draws depends on measured seconds, which are never the same "
                "twice; search.metric with views instead makes it exact"
            )
        return found

    @property
    def interrupted(self) -> int:
        """Trials of earlier drivers to be handed out again: unfinished, or with lost records."""
        return len(self._orphans)

    def remaining(self) -> int:
        """Trials still to be handed out, over all arms."""
        return len(self._orphans) + sum(self._left(arm) for arm in self._arms)

    def next(self) -> Job | None:
        """An interrupted trial, else a new one of the arm that has most left."""
        if self._orphans:
            return self._orphans.pop(0)
        while True:
            arms = [
                arm for arm in self._arms if self._left(arm) and self._running(arm) < self._parallel
            ]
            if not arms:
                return None
            name = max(arms, key=self._left)  # max takes the first of equals
            trial = self._arms[name].ask()
            if trial is not None:
                self._started[name] += 1
                return self._start(self._arms[name], trial)
            self._exhausted.add(name)  # nothing left that satisfies the constraints

    def on_records(self, job: Job, records: Sequence[Record]) -> bool:
        """Report the epochs to Optuna; True if the arm's rungs stop the trial."""
        if job.key in self._again:  # decided before the loss
            old = self._again[job.key]
            step = self._arms[job.arm].step(records[-1].epoch, job.planned)
            return old.state == TrialState.PRUNED and step >= old.last_step
        return self._arms[job.arm].report(self._trials[job.key], records, job.planned)

    def on_end(self, ending: Ending) -> None:
        """Keep the ending, then tell Optuna: a crash in between is mended at the next start.

        Raises:
            Paused: more of the arm's trials have failed than `max_failures`.
        """
        self._ledger.write(ending)
        arm = ending.job.arm
        if self._again.pop(ending.job.key, None) is None:
            self._arms[arm].tell(self._trials.pop(ending.job.key), ending)
        self._spent[arm].add(ending)
        failed = self._spent[arm].failed
        if ending.outcome == "failed" and failed > self._search.max_failures:
            cause = last_line(ending.failure)
            raise Paused(
                f"{failed} trials of {arm} have failed, more than search.max_failures "
                f"({self._search.max_failures}); the last one with: {cause}\n"
                "  try: mend the cause, then the same command with --resume "
                f"--set search.max_failures={2 * failed}"
            )

    @property
    def running(self) -> int:
        """Trials that have been handed out and have not ended."""
        return len(self._trials) + len(self._again)

    def planned(self) -> dict[str, int]:
        """Trials that each arm is to have."""
        return {name: arm.planned for name, arm in self._arms.items()}

    def recheck_jobs(self) -> list[Job]:
        """Further trainings of each arm's best trials, if the study asks for them."""
        asked = self._search.rechecks
        if asked is None:
            return []
        return [
            self._job(arm, trial.number, dict(trial.params), seed=seed)
            for seed in asked.seeds
            for arm in self._arms.values()
            for trial in arm.ranking()[: asked.top]
        ]

    def winners(self) -> dict[str, Settings | None]:
        """Each arm's best settings by the last epochs on the validation split, or None.

        Only trials that ran to their last epoch count: the figures of stopped ones belong to
        other epochs. With rechecks the mean over the search's seed and the further ones decides
        among those that were rechecked.
        """
        return {name: self._winner(arm) for name, arm in self._arms.items()}

    def _winner(self, arm: ArmSearch) -> Settings | None:
        ranking = arm.ranking()
        asked = self._search.rechecks
        if asked is None or not ranking:
            return dict(ranking[0].params) if ranking else None
        means = {}
        for trial in ranking[: asked.top]:
            values = [arm.gain(trial.values[0])]
            for seed in asked.seeds:
                ending = self._ledger.read(self._job(arm, trial.number, trial.params, seed).key)
                finished = ending is not None and ending.outcome == "finished"
                found = arm.judged(ending) if finished else None
                values.append(arm.gain(found[0]) if found else -math.inf)
            means[trial.number] = math.fsum(values) / len(values)
        best = max(ranking[: asked.top], key=lambda t: (means[t.number], -t.number))
        return dict(best.params) if math.isfinite(means[best.number]) else None

    def _left(self, arm: str) -> int:
        if arm in self._exhausted or self._spent[arm].reached(self._search.budget):
            return 0
        return max(0, self._arms[arm].planned - self._started[arm])

    def _running(self, arm: str) -> int:
        start = key_start("search", arm, self._study.number)
        return sum(key.startswith(start) for key in self._trials)

    def _start(self, arm: ArmSearch, trial: optuna.Trial) -> Job:
        job = self._job(arm, trial.number, dict(trial.params))
        self._trials[job.key] = trial
        return job

    def _job(self, arm: ArmSearch, number: int, drawn: Settings, seed: int | None = None) -> Job:
        phase = "search" if seed is None else "recheck"
        seed = self._search.seed if seed is None else seed
        workload = self._study.trains
        training = work(workload, arm.arm.complete(self._study.tuned_under, drawn))
        # A trial that has trained to its own last epoch has not been stopped.
        planned = training["planned"]
        rungs = tuple(epoch for epoch in arm.rungs(planned) if epoch < (planned or 0))
        return Job(
            phase=phase,
            arm=arm.name,
            condition=self._study.tuned_under,
            seed=seed,
            training_seed=twin_seed(self._study, arm.name, seed),
            number=number,
            **training,
            **self._study.task(required=self._search.metrics),
            drawn=dict(drawn),
            decide_at=rungs if phase == "search" else (),
            folder=str(self._folder),
            replicate=self._study.number,
        )

    def _orphans_of(self, arm: ArmSearch) -> list[Job]:
        orphans = []
        for trial in arm.orphans():
            job = self._start(arm, trial)
            ending = self._ledger.read(job.key)
            if ending:
                arm.tell(self._trials.pop(job.key), ending)
            else:
                orphans.append(job)
        return orphans

    def _lost(self, arm: ArmSearch, known: set[str]) -> list[Job]:
        """Trials whose end Optuna knows and the ledger does not: a damaged disk.

        They are run again, on the same seed and settings, for their records alone.
        """
        lost = []
        for trial in arm.started():
            if trial.state.is_finished():
                job = self._job(arm, trial.number, dict(trial.params))
                if job.key not in known:
                    self._again[job.key] = trial
                    lost.append(job)
        return lost


class _Spent:
    """What an arm's ended trials have cost."""

    def __init__(self) -> None:
        self.epochs, self.seconds, self.failed = 0, 0.0, 0

    def add(self, ending: Ending) -> None:
        self.epochs += ending.epochs
        self.seconds += ending.seconds
        self.failed += ending.outcome == "failed"

    def reached(self, budget: object) -> bool:
        epochs = getattr(budget, "epochs", None)
        hours = getattr(budget, "device_hours", None)
        return (epochs is not None and self.epochs >= epochs) or (
            hours is not None and self.seconds >= 3600 * hours
        )
