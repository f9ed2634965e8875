"""What a design costs, in trainings, and which other one of the same cost decides, or shows more.

A design is R replicates of T trials per arm and n confirmation seeds. Costs are in whole trainings;
a trial that may be stopped early counts as the share of its epochs that it runs on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from analysis.statistics.power import (
    best_split,
    minimum_detectable_difference,
    seeds_needed_for_family,
)
from study.design import Study, arms_of
from study.planning.duration import share_trained

FEWEST_TRIALS = 2  # of an arm: one would be no search


@dataclass(frozen=True)
class Design:
    """Numbers of a design: `replicates` is 1 where each arm is searched once, or not at all.

    Attributes:
        trials: of each arm in each replicate; 0 without a search.
        seeds: of each replicate.
        per_trial, per_seed: whole trainings that one trial of every arm takes, and one seed of
            every arm under every condition.
        rechecks: whole trainings of each replicate's search beside its trials.
    """

    replicates: int
    trials: int
    seeds: int
    per_trial: float
    per_seed: float
    rechecks: int = 0

    @property
    def per_search(self) -> float:
        """Whole trainings of one replicate's search."""
        return self.trials * self.per_trial + self.rechecks

    @property
    def cost(self) -> float:
        """In whole trainings."""
        return self.replicates * (self.per_search + self.seeds * self.per_seed)


def design_of(study: Study) -> Design:
    """The numbers of a study."""
    search, arms = study.search, arms_of(study)
    per_seed = float(len(arms) * len(study.conditions))
    if search is None:
        return Design(1, 0, study.confirm.count, 1.0, per_seed)
    longest = max((arm.length(study.tuned_under) or (1, 1))[1] for arm in arms.values())
    per_trial = len(arms) * share_trained(search.pruned, longest)
    again = search.rechecks
    return Design(
        search.replicates,
        search.trials_per_arm,
        study.confirm.count,
        per_trial,
        per_seed,
        len(arms) * again.top * len(again.seeds) if again else 0,
    )


def cost_line(study: Study) -> str:
    """What all of a study takes, in trainings."""
    design, arms = design_of(study), len(study.arms)
    runs = design.replicates * design.seeds * round(design.per_seed)
    confirmation = f"{runs} confirmation run{'s' * (runs != 1)}"
    if study.search is None:
        return f"cost: {confirmation}"
    trials = design.replicates * design.trials * arms
    whole = round(design.replicates * design.trials * design.per_trial)
    early = f" (some {whole} whole trainings, as trials are stopped early)" * (whole < trials)
    again = f", {design.replicates * design.rechecks} rechecks" * bool(design.rechecks)
    return f"cost: {trials} trials{early}{again} and {confirmation}"


def nearest(study: Study, needed: int) -> str:
    """Options with which the claims can be decided, at the same cost where that is possible.

    Args:
        study: with too few units.
        needed: units that its claims need.
    """
    now = design_of(study)
    if study.search is None:
        return _priced(study, replace(now, seeds=needed))
    if study.about == "configuration" and now.replicates == 1:
        wanted = replace(now, seeds=needed)
    else:
        fewer = now.replicates / needed
        wanted = replace(now, replicates=needed, seeds=max(1, math.floor(now.seeds * fewer)))
    left = now.cost / wanted.replicates - wanted.seeds * now.per_seed - now.rechecks
    trials = min(now.trials, math.floor(left / now.per_trial + 1e-9))
    if trials >= min(now.trials, FEWEST_TRIALS):
        return f"{_options(study, replace(wanted, trials=trials))}, at the same cost"
    return _priced(study, replace(wanted, seeds=needed if wanted.replicates == 1 else 1))


def better_splits(
    study: Study, sd_search: float, sd_seed: float
) -> Iterator[tuple[str, Design, float]]:
    """Designs of the same cost that show smaller differences, by 5 % at least.

    The best number of seeds per replicate for as many trials as planned, and for half as many;
    what fewer trials do to the methods themselves cannot be computed.

    Args:
        study: with replicates.
        sd_search, sd_seed: of the paired differences.

    Yields:
        The options, the design, and the smallest difference that it shows with 80 % power.
    """
    now, m, alpha = design_of(study), len(study.claims), study.alpha
    best = smallest_shown(now, sd_search, sd_seed, m, alpha)
    for trials in dict.fromkeys((now.trials, max(FEWEST_TRIALS, now.trials // 2))):
        found = best_split(
            replace(now, trials=trials).per_search, now.per_seed, sd_search, sd_seed, now.cost,
            needed=seeds_needed_for_family(m, alpha), m=m, alpha=alpha,
        )  # fmt: skip
        if found:
            design = replace(now, replicates=found.replicates, trials=trials, seeds=found.seeds)
            shown = smallest_shown(design, sd_search, sd_seed, m, alpha)
            if shown < 0.95 * best:
                yield _options(study, design), design, shown
                best = shown


def smallest_shown(design: Design, sd_search: float, sd_seed: float, m: int, alpha: float) -> float:
    """The smallest difference that the replicates of a design show with 80 % power."""
    sd = math.sqrt(sd_search**2 + sd_seed**2 / design.seeds)
    return minimum_detectable_difference(design.replicates, sd, m, alpha) or math.inf


def _priced(study: Study, other: Design) -> str:
    now = design_of(study).cost
    return f"{_options(study, other)}: {other.cost:.0f} trainings instead of {now:.0f}"


def _options(study: Study, other: Design) -> str:
    """`--set …` for what differs."""
    now = design_of(study)
    names = {
        "search.replicates": (now.replicates, other.replicates),
        "search.trials_per_arm": (now.trials, other.trials),
        "confirm.seeds": (now.seeds, other.seeds),
    }
    changes = [f"--set {name}={new}" for name, (old, new) in names.items() if old != new]
    if study.confirm.looks and other.replicates != now.replicates:
        changes.append("--set confirm.looks=null")
    return " ".join(changes)
