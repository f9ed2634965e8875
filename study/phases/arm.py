"""One arm of the search: its Optuna study, what it has tried, and what it tries next."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeGuard

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from study.design import Parameter, SearchSpace, Study, arms_of, twin_seed
from study.design.seeds import derive
from study.phases.objectives import direction, gain, judged
from study.phases.optuna_storage import DESIGNS
from study.phases.pruners import DECLARED, pruner
from study.phases.samplers import KEEPS_STATE, sampler
from study.records import Ending, Record
from study.workload import Settings

REJECTED = "rejected"  # user attribute of a draw that was not tried, with the reason
MOST_REFUSED = 3  # draws of the sampler in a row
MOST_DRAWS = 200

_STATES = {
    "finished": TrialState.COMPLETE,
    "stopped": TrialState.PRUNED,
    "diverged": TrialState.FAIL,
    "failed": TrialState.FAIL,
}


class ArmSearch:
    """An arm's Optuna study: its own sampler, its own rungs, its own history.

    Everything that it knows is in Optuna's storage, so that an instance made after a crash
    continues as the first one would have.

    Args:
        study: with a `search`.
        name: of the arm.
        storage: of Optuna.
        design: hash of the study's design, which the history names too; "" where there is none.
    """

    def __init__(
        self, study: Study, name: str, storage: optuna.storages.BaseStorage, design: str = ""
    ) -> None:
        assert study.search is not None
        self.name, self._study, self._search = name, study, study.search
        self.arm = arms_of(study)[name]
        own = twin_seed(study, name, study.sampler_seed)
        # Arms start from the same draws, unless they are the same under different names.
        self._sampler_seed = study.sampler_seed if own is None else own
        length = self.arm.length(study.tuned_under)
        self.epochs = length[1] if length else 1  # without planned epochs nothing is stopped early
        self._space = self.arm.space
        self._optuna = optuna.create_study(
            study_name=optuna_name(study, name),
            storage=storage,
            directions=[direction(study, metric) for metric in self._search.metrics],
            load_if_exists=True,
            pruner=pruner(self._search.pruned, self.epochs),
        )
        self._note_designs([design])
        points = self._space.points()
        self._points = points and [p for p in points if self.arm.admits(p)]
        first = self.arm.first
        if self._search.sampler == "grid":
            first = [p for p in map(self._on_grid, first) if p is not None]
        for point in first[: self._search.trials_per_arm]:
            self._optuna.enqueue_trial(point, user_attrs={DECLARED: True}, skip_if_exists=True)

    def rungs(self, planned: int | None) -> dict[int, int]:
        """Epochs after which a trial of `planned` epochs may be stopped, each with its rung.

        Of trials that share a budget of views those with more views of an image have fewer epochs.
        They meet where they have spent the same share of it, at rungs counted in the epochs of the
        arm's longest trial.
        """
        rule = self._search.pruned
        if rule is None:
            return {}
        rungs = rule.rungs(self.epochs)
        if not self._shares(planned):
            return {rung: rung for rung in rungs}
        every = self._study.trains.measured_every(self._study.trial)
        shares = ((rung, Fraction(rung * planned, self.epochs * every)) for rung in rungs)
        return {math.ceil(share) * every: rung for rung, share in shares}

    def step(self, epoch: int, planned: int | None) -> int:
        """An epoch of a trial, counted in epochs of the arm's longest trial."""
        if not self._shares(planned):
            return epoch
        return self.rungs(planned).get(epoch, epoch * self.epochs // planned)

    def _shares(self, planned: int | None) -> TypeGuard[int]:
        """Whether a trial has fewer epochs than others, though not because it drew fewer."""
        asha = self._search.pruned is not None and self._search.pruned.rule == "asha"
        return asha and planned not in (None, self.epochs) and "epochs" not in self._space

    @property
    def planned(self) -> int:
        """Trials that the arm is to have: fewer than declared if it has fewer configurations."""
        declared = self._search.trials_per_arm
        return declared if self._points is None else min(declared, len(self._points))

    def started(self) -> list[FrozenTrial]:
        """Trials that have been started, in order; rejected draws are none."""
        trials = self._optuna.get_trials(deepcopy=False)
        return [t for t in trials if t.state != TrialState.WAITING and REJECTED not in t.user_attrs]

    def ask(self) -> optuna.Trial | None:
        """A trial that is no repetition and satisfies the constraints; None if none is left."""
        for attempt in range(MOST_DRAWS):
            trial = self._offer(attempt)
            if trial is None:
                return None
            reason = self._refused(self._draw(trial), trial.number)
            if reason is None:
                return trial
            self._reject(trial, reason)
        return None

    def replay(self, endings: Mapping[int, Ending]) -> None:
        """Take ended trials into an empty history, each under its number.

        A number without an ending was a draw that was rejected, or a trial whose ending is not
        known. It is drawn again, which gives the same draw where the arm had one trial at a time.
        The trials that this leaves running are `orphans`.

        Args:
            endings: by the trial's number.
        """
        self._note_designs(e.stamp.get("design", "") for _, e in sorted(endings.items()))
        refused, spare = 0, self.planned - len(endings)
        for number in range(max(endings) + 1):
            if number in endings:
                self._again(endings[number])
                refused = 0
                continue
            trial = self._offer(refused) or self._optuna.ask()
            reason = self._refused(self._draw(trial), trial.number)
            if reason is None and spare <= 0:
                reason = "was not known any more when search.db was rebuilt"
            if reason is None:
                refused, spare = 0, spare - 1
            else:
                self._reject(trial, reason)
                refused += 1

    def _again(self, ending: Ending) -> None:
        """A trial as it was: asked for, so that the sampler counts it, but with its own draws."""
        counted = self._search.sampler in KEEPS_STATE
        self._seed_sampler(len(self._settled()), None if counted else "random")
        trial = self._optuna.ask()
        kinds = {name: distribution(self._space, name) for name in ending.job.drawn}
        declared = self._frozen(trial).system_attrs.get("fixed_params", {})
        if counted and any(not k.single() and name not in declared for name, k in kinds.items()):
            _ = trial.relative_params  # is drawn with the first setting that is not declared
        for name, value in ending.job.drawn.items():
            inner = kinds[name].to_internal_repr(value)
            trial.storage.set_trial_param(trial._trial_id, name, inner, kinds[name])
        self.report(trial, ending.records, ending.job.planned)
        self.tell(trial, ending)

    def _offer(self, attempt: int) -> optuna.Trial | None:
        """The sampler's next trial, after so many rejected ones; None if there can be none."""
        position = len(self._settled())
        self._seed_sampler(position)
        if self._search.sampler == "grid":
            if not self._next_on_grid(position):
                return None
        elif attempt >= MOST_REFUSED and not self._help(position):
            return None
        return self._optuna.ask()

    def _reject(self, trial: optuna.Trial, reason: str) -> None:
        trial.set_user_attr(REJECTED, reason)
        self._optuna.tell(trial, state=TrialState.FAIL)

    def _note_designs(self, designs: Iterable[str]) -> None:
        known = self._optuna.user_attrs.get(DESIGNS, [])
        new = [design for design in dict.fromkeys(designs) if design and design not in known]
        if new:
            self._optuna.set_user_attr(DESIGNS, [*known, *new])

    def _help(self, position: int) -> bool:
        """A sampler that keeps coming back to the same draws is given another one."""
        if self._points is None:
            self._seed_sampler(position, name="random")
            return True
        tried = {_point(t.params) for t in self.started()}
        untried = [p for p in self._points if _point(p) not in tried]
        if untried:
            choice = derive(self._sampler_seed, "untried", position) % len(untried)
            self._optuna.enqueue_trial(untried[choice])
        return bool(untried)

    def _next_on_grid(self, position: int) -> bool:
        """See that a point of the grid waits: the declared first ones, then any untried one.

        In random order, the same for all arms of the same space: in the order of the dimensions
        a trial's neighbours would come first, and early stopping would compare it with those only.
        """
        waiting = self._optuna.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        return bool(waiting) or self._help(position)

    def _on_grid(self, declared: Settings) -> Settings | None:
        """The first point of the grid that has the declared values; none is against `require`."""
        assert self._points is not None  # else refused by `study.spec.search_checks`
        at = _point(declared)
        return next((p for p in self._points if at <= _point(p)), None)

    def orphans(self) -> Iterator[optuna.Trial]:
        """Trials that were running when an earlier driver died."""
        for frozen in self._optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._seed_sampler(frozen.number)
            trial = optuna.Trial(self._optuna, frozen._trial_id)
            # Settings drawn before the crash are found again, missing ones are drawn as then.
            reason = self._refused(self._draw(trial), trial.number)
            if reason is None:
                yield trial
            else:  # killed between the draw and its rejection
                self._reject(trial, reason)

    def report(self, trial: optuna.Trial, records: Sequence[Record], planned: int | None) -> bool:
        """Tell Optuna the epochs; True if the trial is to be stopped after the last of them."""
        if len(self._search.metrics) > 1:
            return False  # Optuna takes no intermediate values of several; nothing is stopped then
        known = self._frozen(trial).intermediate_values
        stop = False
        for record in records:
            value = record.metrics.get(self._search.metric)
            if value is None or record.epoch == 0:
                continue
            step = self.step(record.epoch, planned)
            if step not in known:
                trial.report(value, step)
            if record.epoch in self.rungs(planned) and record.epoch == records[-1].epoch:
                stop = trial.should_prune()
        return stop

    def tell(self, trial: optuna.Trial, ending: Ending) -> None:
        """Tell Optuna how a trial ended: only one that reached its last epoch is complete."""
        state = _STATES[ending.outcome]
        values = self.judged(ending) if state == TrialState.COMPLETE else None
        if values is None and state == TrialState.COMPLETE:
            state = TrialState.FAIL
        trial.set_user_attr("config", json.dumps(ending.job.config, sort_keys=True))
        if ending.failure:
            trial.set_user_attr("failure", ending.failure[-2000:])
        self._optuna.tell(trial, values, state=state)

    def ranking(self) -> list[FrozenTrial]:
        """Trials that reached their last epoch, the best first; of equals, the earlier one."""
        complete = self._optuna.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return sorted(complete, key=lambda t: (-self.gain(t.values[0]), t.number))

    def gain(self, value: float) -> float:
        """A figure by the search's first metric, with the sign that makes larger better."""
        return gain(self._study, self._search.metric, value)

    def judged(self, ending: Ending) -> list[float] | None:
        """A trial's figures by the search's metrics; None without finite ones."""
        return judged(ending, self._study)

    def _seed_sampler(self, position: int, name: str | None = None) -> None:
        self._optuna.sampler = sampler(
            name or self._search.sampler,
            study_seed=self._sampler_seed,
            position=position,
            trials=self._search.trials_per_arm,
            conditional=self._space.conditional,
        )

    def _settled(self) -> list[FrozenTrial]:
        trials = self._optuna.get_trials(deepcopy=False)
        return [t for t in trials if t.state != TrialState.WAITING]

    def _draw(self, trial: optuna.Trial) -> Settings:
        def pick(name: str, parameter: Parameter) -> Any:
            return _suggest(trial, name, distribution(self._space, name))

        return self._space.draw(pick)

    def _refused(self, drawn: Settings, number: int) -> str | None:
        if not self.arm.admits(drawn):
            return f"against {', '.join(self._search.require)}"
        if self._points is not None:
            point = _point(drawn)
            for other in self.started():
                if other.number < number and _point(other.params) == point:
                    return f"repeats trial {other.number}"
        return None

    def _frozen(self, trial: optuna.Trial) -> FrozenTrial:
        return trial.storage.get_trial(trial._trial_id)


def optuna_name(study: Study, arm: str) -> str:
    """The name of an arm's Optuna study in `search.db`."""
    number = "" if study.number is None else f"/{study.number}"
    return f"{study.name}/{arm}{number}"


def _point(settings: Settings) -> frozenset[tuple[str, Any]]:
    """Equal for equal configurations, binary fractions of a grid aside."""
    return frozenset(
        (name, float(f"{value:.12g}") if isinstance(value, float) else value)
        for name, value in settings.items()
    )


def _suggest(trial: optuna.Trial, name: str, kind: BaseDistribution) -> Any:
    if isinstance(kind, CategoricalDistribution):
        return trial.suggest_categorical(name, kind.choices)
    low, high, log, step = kind.low, kind.high, kind.log, kind.step
    suggest = trial.suggest_int if isinstance(kind, IntDistribution) else trial.suggest_float
    return suggest(name, low, high, log=log, step=step)


def distribution(space: SearchSpace, name: str) -> BaseDistribution:
    """A dimension of a search space as Optuna has it."""
    parameter = space[name]
    if parameter.choices is not None:
        return CategoricalDistribution(parameter.choices)
    low, high, log, step = parameter.low, parameter.high, parameter.log, parameter.step
    if space.integral(name):
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(low, high, log=log, step=step)
