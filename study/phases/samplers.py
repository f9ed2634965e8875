"""Samplers: Optuna's, made anew for each trial of an arm from a seed of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    GPSampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)

from study.design.seeds import derive

_MAKERS: dict[str, Callable[[int, int], BaseSampler]] = {
    "tpe": lambda seed, startup: TPESampler(seed=seed, n_startup_trials=startup, multivariate=True),
    "grouped tpe": lambda seed, startup: TPESampler(
        seed=seed, n_startup_trials=startup, multivariate=True, group=True
    ),
    "random": lambda seed, startup: RandomSampler(seed=seed),
    "gp": lambda seed, startup: GPSampler(seed=seed, n_startup_trials=startup),
    # Generations small enough for a few of them; Optuna's default, 50, is most searches' all.
    "nsga2": lambda seed, startup: NSGAIISampler(population_size=min(50, startup), seed=seed),
    # The arm enqueues the points of its grid: Optuna's own grid knows no conditional spaces.
    "grid": lambda seed, startup: RandomSampler(seed=seed),
}

KEEPS_STATE = ("qmc", "nsga2")  # in the storage: which point comes next, whose generation it is
INDIFFERENT = ("random", "qmc", "grid")  # they draw whatever the trials have shown


def sampler(
    name: str, *, study_seed: int, position: int, trials: int, conditional: bool = False
) -> BaseSampler:
    """A fresh sampler for the trial at `position` of any arm.

    The seed depends on the position and not on the arm: arms start from the same draws, and an
    arm's name gives it no luck. Fresh for each trial, since a sampler that is made again after a
    restart would repeat its first draw. `qmc` numbers its points in the storage, so its seed is
    one for all.

    Args:
        name: tpe, random, qmc, gp, nsga2 or grid.
        study_seed: of the search.
        position: trials of the arm so far.
        trials: planned per arm; the first quarter, at least four, are drawn at random. For nsga2
            that is a generation.
        conditional: some dimensions exist only with some values of others; tpe then learns in
            groups of dimensions that occur together. Without, it would draw all dimensions that
            are not in every trial one by one, as if they had nothing to do with each other.
    """
    with warnings.catch_warnings():
        # `multivariate` and some samplers have been "experimental" since Optuna 2.
        warnings.simplefilter("ignore", ExperimentalWarning)
        if name == "qmc":
            return QMCSampler(
                scramble=True,
                seed=derive(study_seed, "sampler") % 2**32,
                warn_independent_sampling=False,
                warn_asynchronous_seeding=False,
            )
        seed = derive(study_seed, "sampler", position) % 2**32
        if name == "tpe" and conditional:
            name = "grouped tpe"
        return _MAKERS[name](seed, max(4, trials // 4))
