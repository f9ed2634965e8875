"""Pruners: when a trial is stopped early, compared with the other trials of its own arm."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner, WilcoxonPruner
from optuna.study import StudyDirection

from study.design import EarlyStopping

if TYPE_CHECKING:
    from optuna import Study as OptunaStudy
    from optuna.trial import FrozenTrial


DECLARED = "declared"  # user attribute of the study's `first` configurations


def pruner(rule: EarlyStopping | None, epochs: int) -> BasePruner:
    """The pruner of an arm that trains for `epochs`."""
    if rule is None:
        return NopPruner()
    if rule.rule == "asha":
        return Halving(rule.rungs(epochs), rule.reduction_factor)
    grace = rule.grace(epochs)
    if rule.rule == "median":
        stock = MedianPruner(n_startup_trials=rule.reduction_factor, n_warmup_steps=grace - 1)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # since Optuna 3.6
            stock = WilcoxonPruner(p_threshold=0.1, n_startup_steps=grace)
    return SpareDeclared(stock)


class SpareDeclared(BasePruner):
    """Another pruner, except that the declared first configurations are never stopped."""

    def __init__(self, stock: BasePruner) -> None:
        self._stock = stock

    def prune(self, study: OptunaStudy, trial: FrozenTrial) -> bool:
        """Whether the trial should stop after its last reported epoch."""
        return not _declared(trial) and self._stock.prune(study, trial)


class Halving(BasePruner):
    """Asynchronous successive halving on an arm's own rungs.

    A trial that reaches a rung continues if its value is among the best 1/η of all values that the
    arm's trials have had there so far. Departures from the algorithm, and from stock pruners
    and schedulers:

    - Nothing is stopped before a rung holds η values. Stock ones stop from the second value on,
      so that with few trials nearly everything after the first dies.
    - The declared first configurations are never stopped: they are the papers' baselines.
    - A stopped trial stays stopped. Algorithm 2 pauses a trial at a rung and promotes it later,
      once it is among the best 1/η there; here each trial is decided once, when it reaches the
      rung, as by the stock ones. No checkpoint of a stopped trial has to be kept.
    - The decision is a function of the values in Optuna's storage alone. Nothing is lost with a
      killed driver, and asking again gives the same answer.

    Source: Li et al. 2020, arXiv:1810.05934, Algorithm 2.

    Args:
        rungs: epochs at which trials are compared.
        reduction_factor: η >= 2.
    """

    def __init__(self, rungs: list[int], reduction_factor: int) -> None:
        self._rungs = frozenset(rungs)
        self._reduction_factor = reduction_factor

    def prune(self, study: OptunaStudy, trial: FrozenTrial) -> bool:
        """Whether the trial should stop after its last reported epoch."""
        epoch = trial.last_step
        if epoch not in self._rungs or _declared(trial):
            return False
        trials = study.get_trials(deepcopy=False)
        values = [t.intermediate_values[epoch] for t in trials if epoch in t.intermediate_values]
        if len(values) < self._reduction_factor:
            return False
        kept = len(values) // self._reduction_factor
        own = trial.intermediate_values[epoch]
        if study.direction == StudyDirection.MINIMIZE:
            return own > sorted(values)[kept - 1]
        return own < sorted(values)[-kept]


def _declared(trial: FrozenTrial) -> bool:
    """Whether the trial is one of the study's `first` configurations."""
    return DECLARED in trial.user_attrs
