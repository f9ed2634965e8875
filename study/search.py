"""How is each arm tuned on its own, with the same budget, by Optuna?

Optuna's storage is the ledger of the search: starting and resuming are the same path. An arm has
its own Optuna study, sampler and rungs. With one trial of an arm at a time, what an arm is
offered and when its trials stop depend on nothing but the study file, however many arms run side
by side.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.trial import TrialState

from contrastive.config import TrainConfig
from contrastive.seeds import derive
from study import space as spaces
from study.halving import Halving
from study.job import Job, Record, work
from study.ledger import Ending, Ledger
from study.spec import Parameter, Settings, Study

optuna.logging.set_verbosity(optuna.logging.ERROR)

_STATES = {
    "finished": TrialState.COMPLETE,
    "stopped": TrialState.PRUNED,
    "diverged": TrialState.FAIL,
    "failed": TrialState.FAIL,
}


class SearchSource:
    """Hands out the trials of all arms in turn, and tells Optuna what became of them.

    Args:
        study: with a `search`.
        folder: of the study; holds `search.db`.
        ledger: where endings are kept.
        slots: jobs that run at the same time.
    """

    def __init__(self, study: Study, folder: Path, ledger: Ledger, *, slots: int) -> None:
        assert study.search is not None
        self._study, self._search, self._ledger = study, study.search, ledger
        self._folder = folder
        self._storage = _storage(folder)
        self._arms = {arm: self._open(arm) for arm in study.arms}
        self._trials: dict[str, optuna.Trial] = {}  # running jobs, by key
        self._parallel = self._search.parallel_per_arm or math.ceil(slots / len(study.arms))
        self._orphans = [job for arm in study.arms for job in self._orphans_of(arm)]

    @property
    def reproducible(self) -> bool:
        """Whether the order in which jobs happen to end cannot change the search."""
        return self._parallel == 1

    def remaining(self) -> int:
        """Trials still to be handed out, over all arms."""
        return len(self._orphans) + sum(self._left(arm) for arm in self._arms)

    def next(self) -> Job | None:
        """An interrupted trial, else a new one of the arm that has started fewest."""
        if self._orphans:
            return self._orphans.pop(0)
        open_arms = [
            arm for arm in self._arms if self._left(arm) and self._running(arm) < self._parallel
        ]
        if not open_arms:
            return None
        return self._ask(max(open_arms, key=self._left))  # max takes the first of equals

    def on_records(self, job: Job, records: Sequence[Record]) -> bool:
        """Report the epochs to Optuna; True if the arm's rungs stop the trial."""
        trial = self._trials[job.key]
        frozen = trial.storage.get_trial(trial._trial_id)
        stop = False
        for record in records:
            value = record.metrics.get(self._search.metric)
            if value is None or record.epoch == 0:
                continue
            if record.epoch not in frozen.intermediate_values:
                trial.report(value, record.epoch)
            if record.epoch in job.decide_at and record.epoch == records[-1].epoch:
                stop = trial.should_prune()
        return stop

    def on_end(self, ending: Ending) -> None:
        """Keep the ending, then tell Optuna: a crash in between is mended at the next start."""
        self._ledger.write(ending)
        self._tell(self._trials.pop(ending.job.key), ending)

    def jobs(self) -> list[tuple[Job, Ending | None]]:
        """All trials that have been started, by arm and number, with their endings."""
        found = []
        for arm, optuna_study in self._arms.items():
            for frozen in optuna_study.get_trials(deepcopy=False):
                if frozen.state != TrialState.WAITING:
                    job = self._job(arm, frozen.number, frozen.params)
                    found.append((job, self._ledger.read(job.key)))
        return found

    def planned(self) -> dict[str, int]:
        """Trials that each arm is to have."""
        return dict.fromkeys(self._arms, self._search.trials_per_arm)

    def winners(self) -> dict[str, Settings | None]:
        """Each arm's settings with the best validation figure at the last epoch, or None.

        Only trials that ran to their last epoch count: the figures of stopped ones belong to
        other epochs. Of equals, the earlier trial wins.
        """
        found: dict[str, Settings | None] = {}
        for arm, optuna_study in self._arms.items():
            complete = optuna_study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            best = max(complete, key=lambda t: (t.value, -t.number), default=None)
            found[arm] = dict(best.params) if best else None
        return found

    def _open(self, arm: str) -> optuna.Study:
        optuna_study = optuna.create_study(
            study_name=f"{self._study.name}/{arm}",
            storage=self._storage,
            direction="maximize",
            load_if_exists=True,
            pruner=self._pruner(arm),
        )
        for point in spaces.first_points(self._study, arm)[: self._search.trials_per_arm]:
            optuna_study.enqueue_trial(point, skip_if_exists=True)
        return optuna_study

    def _pruner(self, arm: str) -> optuna.pruners.BasePruner:
        rule = self._search.pruned
        if rule is None:
            return optuna.pruners.NopPruner()
        return Halving(self._rungs(arm), rule.reduction_factor)

    def _rungs(self, arm: str) -> list[int]:
        rule = self._search.pruned
        fixed = self._study.fixed(arm, self._study.tuned_under)
        return rule.rungs(TrainConfig(**fixed).epochs) if rule else []

    def _left(self, arm: str) -> int:
        started = [
            t for t in self._arms[arm].get_trials(deepcopy=False) if t.state != TrialState.WAITING
        ]
        return max(0, self._search.trials_per_arm - len(started))

    def _running(self, arm: str) -> int:
        return sum(key.startswith(f"search/{arm}/") for key in self._trials)

    def _ask(self, arm: str) -> Job:
        # Trials are numbered in the order of their start, the declared first ones included.
        self._seed_sampler(arm, self._search.trials_per_arm - self._left(arm))
        trial = self._arms[arm].ask()
        return self._start(arm, trial)

    def _seed_sampler(self, arm: str, number: int) -> None:
        # The seed depends on the position alone, not on the arm: arms start from the same draws.
        # A fresh sampler for each trial, since a restarted one would repeat its first draw.
        seed = derive(self._search.seed, "sampler", number) % 2**32
        startup = max(4, self._search.trials_per_arm // 4)
        self._arms[arm].sampler = _sampler(seed, startup=startup)

    def _start(self, arm: str, trial: optuna.Trial) -> Job:
        fixed = self._study.fixed(arm, self._study.tuned_under)
        space = spaces.arm_space(self._study, arm)
        drawn = spaces.draw(space, fixed, lambda name, p: _suggest(trial, name, p))
        job = self._job(arm, trial.number, drawn)
        self._trials[job.key] = trial
        return job

    def _job(self, arm: str, number: int, drawn: Settings) -> Job:
        condition = self._study.tuned_under
        config = TrainConfig(**(self._study.fixed(arm, condition) | drawn))
        return Job(
            phase="search",
            arm=arm,
            condition=condition,
            seed=self._search.seed,
            number=number,
            **work(config),
            drawn=dict(drawn),
            decide_at=tuple(self._rungs(arm)),
            checkpoint=str(self._folder / "checkpoints" / f"search-{arm}-{number:04d}.pt"),
        )

    def _orphans_of(self, arm: str) -> list[Job]:
        """Trials that were running when an earlier driver died."""
        optuna_study, orphans = self._arms[arm], []
        for frozen in optuna_study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._seed_sampler(arm, frozen.number)
            trial = optuna.Trial(optuna_study, frozen._trial_id)
            # Settings drawn before the crash are found again, missing ones are drawn as then.
            job = self._start(arm, trial)
            ending = self._ledger.read(job.key)
            if ending:
                self._tell(self._trials.pop(job.key), ending)
            else:
                orphans.append(job)
        return orphans

    def _tell(self, trial: optuna.Trial, ending: Ending) -> None:
        state, value = _STATES[ending.outcome], None
        if state == TrialState.COMPLETE:
            value = ending.last(self._search.metric)
            state = state if value is not None and math.isfinite(value) else TrialState.FAIL
        trial.set_user_attr("config", json.dumps(ending.job.config, sort_keys=True))
        if ending.failure:
            trial.set_user_attr("failure", ending.failure[-2000:])
        self._arms[ending.job.arm].tell(trial, value if state == TrialState.COMPLETE else None,
                                        state=state)  # fmt: skip


def _storage(folder: Path) -> optuna.storages.RDBStorage:
    return optuna.storages.RDBStorage(
        f"sqlite:///{folder / 'search.db'}", engine_kwargs={"connect_args": {"timeout": 60}}
    )


def _sampler(seed: int, *, startup: int) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # `multivariate`, since Optuna 2
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, multivariate=True)


def _suggest(trial: optuna.Trial, name: str, parameter: Parameter) -> Any:
    if parameter.choices is not None:
        return trial.suggest_categorical(name, parameter.choices)
    low, high, log, step = parameter.low, parameter.high, parameter.log, parameter.step
    if spaces.integral(name):
        return trial.suggest_int(name, int(low), int(high), log=log, step=int(step or 1))
    return trial.suggest_float(name, low, high, log=log, step=step)
