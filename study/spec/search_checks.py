"""Checks of the search: its space, first points, metrics, early stopping and constraints."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from study.design import (
    ALLOWED,
    MOST_POINTS,
    SAMPLERS,
    SPLIT,
    Arm,
    Parameter,
    Search,
    Study,
    arms_of,
    names_in,
    ordered,
    satisfied,
    timed,
)
from study.errors import Fault, Path, listing, nearest
from study.spec.settings_checks import setting_fault
from study.workload import Settings

_MOST_RUNGS = 1_000_000


def search_faults(
    study: Study, *, data: bool = True, written: frozenset[str] | None = None
) -> list[Fault]:
    """All faults of `search`, once its single settings are right; as `study_faults`."""
    search = study.search
    if search is None:
        return []
    unknown = list(_unknown_condition(study, search))
    if unknown:
        return unknown
    faults = [
        *_when_faults(study, search, written),
        *_first_faults(search),
        *_metric_faults(study, search),
        *_replicate_faults(study, search),
    ]
    circle = list(_circle(search))
    if circle:
        return faults + circle
    constraints = list(_require_faults(study, search))
    faults += [*_stopping_faults(study, search, data=data), *constraints]
    if search.sampler == "grid" and not constraints:
        faults += _grid_faults(study, search)
    return faults + list(_empty_space(study))


def _unknown_condition(study: Study, search: Search) -> Iterator[Fault]:
    if search.under is not None and search.under not in study.conditions:
        close = nearest(search.under, study.conditions)
        yield Fault(
            ("search", "under"),
            f"search.under names the condition `{search.under}`, which does not exist",
            listing(study.conditions),
            f"under: {close}" if close else "",
        )


def _when_faults(study: Study, search: Search, written: frozenset[str] | None) -> Iterator[Fault]:
    """Dimensions that wait for a setting, or for a value of it, that never comes."""
    set_by_arms = {name for arm in study.arms.values() for name in arm}
    for name, parameter in search.space.items():
        for asked, values in parameter.when.items():
            path: Path = ("search", "space", name, "when", asked)
            if asked == name:
                message = f"`when` of {name} asks about {name} itself"
                yield Fault(path, message, "values of other settings", "leave out `when:`")
            elif not values:
                message = f"`when` of {name} waits for no value of {asked}"
                yield Fault(path, message, "one value or several", "leave out `when:`")
            elif asked in search.space:
                missing = [v for v in values if not search.space[asked].holds(v)]
                if missing:
                    message = f"`when` of {name} waits for {asked}: {missing[0]}, never drawn"
                    yield Fault(path, message, f"values in the range of {asked}")
            elif asked not in set_by_arms:
                known = sorted({*search.space, *set_by_arms} - {name})
                close = nearest(asked, known)
                yield Fault(
                    path,
                    f"`when` of {name} asks about `{asked}`, which is neither searched nor set "
                    "by an arm",
                    listing(known),
                    f"when: {{{close}: …}}" if close else "",
                )
            else:
                yield from _never_set(study, name, asked, values, path, written)


def _never_set(
    study: Study, name: str, asked: str, values: list[Any], path: Path,
    written: frozenset[str] | None,
) -> Iterator[Fault]:  # fmt: skip
    """Values that the setting cannot have in any arm, so that the dimension would be lost.

    A value that only an absent arm has is no mistake: `--set arms.NAME=null` takes arms out. So of
    a setting that takes any text those values count that the study file mentions somewhere.
    """
    rooms = [study.trains.defaults, study.trial, *study.arms.values(), *study.conditions.values()]
    taken = list(dict.fromkeys(str(room[asked]) for room in rooms if asked in room))
    for value in values:
        possible = not setting_fault(path, asked, value, study.trains)
        if possible and written is not None and isinstance(value, str):
            any_text = not setting_fault(path, asked, f"no {value}", study.trains)
            possible = not any_text or value in written
        if str(value) not in taken and not possible:
            close = nearest(value, taken)
            yield Fault(
                path,
                f"`when` of {name} waits for {asked}: {value}, which it never is",
                listing(taken),
                f"when: {{{asked}: {close}}}" if close else "",
            )


def _circle(search: Search) -> Iterator[Fault]:
    try:
        ordered(search.space)
    except ValueError as error:
        yield Fault(("search", "space"), str(error), "dimensions that do not ask in a circle")


def _first_faults(search: Search) -> Iterator[Fault]:
    for i, point in enumerate(search.first):
        for name, value in point.items():
            path: Path = ("search", "first", i, name)
            if name not in search.space:
                close = nearest(name, search.space)
                yield Fault(
                    path,
                    f"search.first sets `{name}`, which is not searched",
                    listing(search.space),
                    f"`{close}`" if close else f"trial: {{{name}: {value}}}",
                )
            elif not search.space[name].holds(value):
                message = f"search.first has {name}: {value}, outside of its range"
                yield Fault(path, message, _range(search.space[name]))


def _metric_faults(study: Study, search: Search) -> Iterator[Fault]:
    """Metrics by which no trial can be judged, and what does not go with several."""
    path: Path = ("search", "metric")
    readable = {
        name: metric
        for name, metric in study.metrics.items()
        if not name.startswith(("test/", "train/")) and name not in study.trains.recorded_once
    }
    qualities = [name for name, metric in readable.items() if metric.kind == "quality"]
    costs = [name for name, metric in readable.items() if metric.kind == "cost"]
    for i, metric in enumerate(search.metrics):
        if metric not in readable:
            close = nearest(metric, readable)
            yield Fault(
                (*path, i),
                f"search.metric has `{metric}`, by which no trial can be judged",
                listing(qualities + costs),
                f"`{close}`" if close else "",
            )
            return
    first, rest = search.metric, search.metrics[1:]
    if first not in qualities:
        yield Fault(
            (*path, 0),
            f"search.metric begins with {first}: the first metric decides which trial wins, and a "
            "cost alone does not make a winner",
            f"first one of {listing(qualities)}, then any of {listing(costs)}",
            f"metric: [{qualities[0]}, {first}]" if qualities else "",
        )
    elif len(set(search.metrics)) < len(search.metrics):
        yield Fault(path, "search.metric has a metric twice", "each once")
    elif rest and search.pruned:
        yield Fault(
            ("search", "early_stopping"),
            f"early_stopping with {len(search.metrics)} metrics: a trial that is behind by one of "
            "them may be ahead by another, and Optuna cannot stop it",
            f"early_stopping: none, or one metric: {first}",
            "early_stopping: none",
        )


def _replicate_faults(study: Study, search: Search) -> Iterator[Fault]:
    """Replicates that could not be independent, or vary what the workload does not have."""
    if "split" in search.vary and SPLIT not in study.trains.hints:
        yield Fault(
            ("search", "vary"),
            f"search.vary has split, but {study.workload} has no setting `{SPLIT}`",
            "sampler, training",
            "vary: [sampler, training]",
        )
    elif search.replicates > 1 and not {"sampler", "training"} & {*search.vary}:
        yield Fault(
            ("search", "vary"),
            "search.vary leaves sampler and training the same: replicates would be repetitions",
            "sampler, training or both, and split",
            "vary: [sampler, training]",
        )
    if search.replicates == 1:
        return
    if not isinstance(study.confirm.seeds, int):
        yield Fault(
            ("confirm", "seeds"),
            f"confirm.seeds is a list, but each of the {search.replicates} replicates has seeds of "
            "its own",
            "a number of seeds per replicate, 1 or 2",
            f"seeds: {min(2, study.confirm.count or 1)}",
        )
    if search.rechecks:
        shared = sorted(
            set(search.rechecks.seeds) & {part.search.seed for part in study.replicates}
        )
        if shared:
            message = f"search.rechecks.seeds contains {shared[0]}, a seed of the search"
            yield Fault(("search", "rechecks", "seeds"), message, "other seeds: that one is known")


def _stopping_faults(study: Study, search: Search, *, data: bool) -> Iterator[Fault]:
    """Early stopping that could never stop anything."""
    rule, path = search.pruned, ("search", "early_stopping")
    if rule is None:
        return
    workload = study.trains
    if "epochs" not in workload.hints and not workload.open:
        yield Fault(
            path,
            f"early_stopping needs the setting `epochs`, which {study.workload} does not have",
            "early_stopping: none, or a function with `epochs: int`",
            "early_stopping: none",
        )
        return
    if rule.grace_epochs is None and timed(study, study.tuned_under):
        yield Fault(
            path,
            "early_stopping without grace_epochs would wait for a fifth of `epochs`, which with a "
            "budget of seconds is a limit that hardly a training reaches: nothing would be stopped",
            "grace_epochs, a number of epochs that trainings have within their seconds",
            f"early_stopping: {{rule: {rule.rule}, grace_epochs: 5}}, or early_stopping: none",
        )
        return
    for arm in arms_of(study).values():
        length = arm.length(study.tuned_under, data=data)
        epochs = length[1] if length else None
        if epochs and rule.rule != "asha" and epochs > _MOST_RUNGS:
            yield Fault(
                path,
                f"rule: {rule.rule} compares trials at every epoch, and {arm.name} has {epochs:,}",
                f"at most {_MOST_RUNGS:,} epochs, or rule: asha",
                "early_stopping: asha",
            )
            return
        if epochs and rule.grace(epochs) >= epochs:
            yield Fault(
                (*path, "grace_epochs"),
                f"grace_epochs is {rule.grace(epochs)}, but {arm.name} trains for {epochs} epochs: "
                "no time is left to stop",
                f"1 to {epochs - 1}" if epochs > 1 else "early_stopping: none",
                f"grace_epochs: {max(1, epochs // 5)}, or early_stopping: none",
            )
            return


def _empty_space(study: Study) -> Iterator[Fault]:
    if not any(arm.space for arm in arms_of(study).values()):
        message = "nothing is left to search: arms and conditions set every dimension of the space"
        yield Fault(("search", "space"), message, "", "leave out `search:` for an ablation")


def _require_faults(study: Study, search: Search) -> Iterator[Fault]:
    """Constraints that cannot be read, and arms that cannot satisfy them."""
    faults = [f for i, text in enumerate(search.require) for f in _unreadable(study, i, text)]
    yield from faults
    if faults or not search.require:
        return
    for arm in arms_of(study).values():
        for point in arm.first:
            broken = _broken(search, arm, point)
            if broken is not None:
                message = f"arm {arm.name}: search.first is against `{search.require[broken]}`"
                yield Fault(("search", "require", broken), message, "a first point that fits")
        draws = (arm.space.random(seed) for seed in range(500))
        if all(_broken(search, arm, drawn) is not None for drawn in draws):
            message = f"arm {arm.name}: none of 500 random configurations satisfies search.require"
            yield Fault(("search", "require"), message, "constraints that leave something")


def _unreadable(study: Study, i: int, constraint: str) -> Iterator[Fault]:
    """A constraint that is no expression, cannot be computed, or names what is no setting."""
    path: Path = ("search", "require", i)
    workload = study.trains
    try:
        names = names_in(constraint)
        unknown = [] if workload.open else sorted(names - set(workload.hints))
        for arm in arms_of(study).values() if not unknown else ():
            for settings in _samples(arm):
                satisfied(constraint, settings)
    except KeyError as error:
        yield Fault(path, f"search.require speaks of {error}, which nothing sets", ALLOWED)
        return
    except ValueError as error:
        yield Fault(path, f"search.require: {error}", ALLOWED)
        return
    for name in unknown:
        close = nearest(name, workload.hints)
        yield Fault(
            path,
            f"search.require speaks of `{name}`, which is no setting",
            listing(workload.hints),
            f"`{close}`" if close else "",
        )


def _grid_faults(study: Study, search: Search) -> Iterator[Fault]:
    """Why the space of an arm cannot be tried point by point: a grid cut short is no grid."""
    arms = arms_of(study)
    if search.budget is not None:
        yield Fault(
            ("search", "budget"),
            "search.budget could end an arm before sampler: grid has tried every configuration",
            "a budget with " + listing(s for s in SAMPLERS if s != "grid"),
            "leave out `budget:`; trials_per_arm bounds a grid",
        )
    endless = {
        name: parameter
        for arm in arms.values()
        for name, parameter in arm.space.items()
        if arm.space.values_of(name) is None
    }
    if endless:
        yield from (_continuum(name, parameter) for name, parameter in endless.items())
        return
    sizes: dict[str, int] = {}
    for arm in arms.values():
        points = arm.space.points()
        if points is None:
            message = f"arm {arm.name} has more than {MOST_POINTS} configurations, too many for "
            yield Fault(("search", "space"), message + "sampler: grid", _GRID_ALLOWED)
            return
        refused = next((p for p in points if _completed(arm, p) is None), None)
        if refused is not None:
            message = f"arm {arm.name}: the grid holds a configuration that cannot be trained: "
            remedy = "`require`, or `when` on a dimension"
            yield Fault(("search", "space"), f"{message}{refused}", "", remedy)
            return
        sizes[arm.name] = sum(_broken(search, arm, point) is None for point in points)
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > search.trials_per_arm:
        yield Fault(
            ("search", "trials_per_arm"),
            f"arm {largest} has {sizes[largest]} configurations and sampler: grid tries each, but "
            f"trials_per_arm is {search.trials_per_arm}",
            f"at least {sizes[largest]}, or a smaller space",
            f"trials_per_arm: {sizes[largest]}",
        )


_GRID_ALLOWED = "`choices`, whole numbers, or a range with `step`"


def _continuum(name: str, parameter: Parameter) -> Fault:
    low, high = parameter.low, parameter.high
    middle = math.sqrt(low * high) if parameter.log else (low + high) / 2
    return Fault(
        ("search", "space", name),
        f"sampler: grid tries every configuration, but search.space.{name} is a continuum",
        _GRID_ALLOWED,
        f"{name}: {{choices: [{low:g}, {middle:.2g}, {high:g}]}}",
    )


def _completed(arm: Arm, drawn: Settings) -> Settings | None:
    """All settings of a configuration of the search; None where it cannot be trained."""
    with contextlib.suppress(ValueError):
        return arm.workload.complete(arm.fixed | drawn)
    return None


def _samples(arm: Arm) -> Iterator[Settings]:
    """Full configurations of an arm: the ends of its space and some random ones."""
    drawn = [arm.fixed | arm.space.random(seed) for seed in range(50)]
    for settings in [*(settings for _, settings in arm.space.corners()), *drawn]:
        with contextlib.suppress(ValueError):  # reported elsewhere
            yield arm.workload.complete(settings)


def _broken(search: Search, arm: Arm, drawn: Settings) -> int | None:
    """The first constraint that the configuration does not satisfy."""
    settings = _completed(arm, drawn)
    if settings is None:
        return None  # reported elsewhere
    for i, constraint in enumerate(search.require):
        try:
            if not satisfied(constraint, settings):
                return i
        except ValueError:
            return i
    return None


def _range(parameter: Parameter) -> str:
    if parameter.choices is not None:
        shown = parameter.choices[:20]
        return listing(shown) + (", …" if len(parameter.choices) > len(shown) else "")
    return f"{parameter.low:g} to {parameter.high:g}"
