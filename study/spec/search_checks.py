"""Can the search of a study be carried out: its space, constraints, first points and rungs?"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from pydantic import ValidationError

from contrastive.config import TrainConfig
from study.design import search_space
from study.design.constraints import ALLOWED, names_in, satisfied
from study.design.length import epochs_of, timed
from study.design.study import SAMPLERS, Parameter, Search, Settings, Study
from study.errors import Fault, Path, listing, nearest
from study.phases.objectives import COSTS, QUALITIES
from study.spec.settings_checks import FIELDS


def search_faults(study: Study, *, data: bool = True) -> Iterator[Fault]:
    """All faults of `search`, once its single settings are right; `data`: look at the data too."""
    search = study.search
    if search is None:
        return
    if search.under is not None and search.under not in study.conditions:
        close = nearest(search.under, study.conditions)
        yield Fault(
            ("search", "under"),
            f"search.under names the condition `{search.under}`, which does not exist",
            listing(study.conditions),
            f"under: {close}" if close else "",
        )
        return
    set_by_arms = {name for arm in study.arms.values() for name in arm}
    circular = False
    for name, parameter in search.space.items():
        for asked, values in parameter.when.items():
            path: Path = ("search", "space", name, "when", asked)
            if asked not in search.space and asked not in set_by_arms:
                known = sorted({*search.space, *set_by_arms} - {name})
                close = nearest(asked, known)
                yield Fault(
                    path,
                    f"`when` of {name} asks about `{asked}`, which is neither searched nor set "
                    "by an arm",
                    listing(known),
                    f"when: {{{close}: …}}" if close else "",
                )
            elif asked in search.space:
                missing = [v for v in values if not search.space[asked].holds(v)]
                if missing:
                    message = f"`when` of {name} waits for {asked}: {missing[0]}, never drawn"
                    yield Fault(path, message, f"values in the range of {asked}")
    try:
        search_space.ordered(search.space)
    except ValueError as error:
        circular = True
        yield Fault(("search", "space"), str(error), "dimensions that do not ask in a circle")
    for i, point in enumerate(search.first):
        for name, value in point.items():
            path = ("search", "first", i, name)
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
    yield from _metric_faults(search)
    rule = search.pruned
    if rule and rule.grace_epochs is None and timed(study, study.tuned_under):
        yield Fault(
            ("search", "early_stopping"),
            "early_stopping without grace_epochs would wait for a fifth of `epochs`, which with a "
            "budget of seconds is a limit that hardly a training reaches: nothing would be stopped",
            "grace_epochs, a number of epochs that trainings have within their seconds",
            f"early_stopping: {{rule: {rule.rule}, grace_epochs: 5}}, or early_stopping: none",
        )
        rule = None
    for arm in study.arms:
        length = epochs_of(study, arm, study.tuned_under, data=data) if rule else None
        epochs = length[1] if length else None
        if epochs and rule.grace(epochs) >= epochs:
            yield Fault(
                ("search", "early_stopping", "grace_epochs"),
                f"grace_epochs is {rule.grace(epochs)}, but {arm} trains for {epochs} epochs: "
                "no time is left to stop",
                f"1 to {epochs - 1}",
                f"grace_epochs: {max(1, epochs // 5)}, or early_stopping: none",
            )
            break
    constraints = list(_require_faults(study))
    yield from constraints
    if search.sampler == "grid" and not circular and not constraints:
        yield from _grid_faults(study)
    if not circular and not any(search_space.arm_space(study, arm) for arm in study.arms):
        message = "nothing is left to search: arms and conditions set every dimension of the space"
        yield Fault(("search", "space"), message, "", "leave out `search:` for an ablation")


def _require_faults(study: Study) -> Iterator[Fault]:
    """Constraints that cannot be read, and arms that cannot satisfy them."""
    search = study.search
    assert search is not None
    readable = True
    for i, constraint in enumerate(search.require):
        path: Path = ("search", "require", i)
        try:
            if not names_in(constraint) - set(FIELDS):
                for arm in study.arms:
                    for settings in _samples(study, arm):
                        satisfied(constraint, settings)
            unknown = sorted(names_in(constraint) - set(FIELDS))
        except ValueError as error:
            readable = False
            yield Fault(path, f"search.require: {error}", ALLOWED)
            continue
        for name in unknown:
            readable = False
            close = nearest(name, FIELDS)
            yield Fault(
                path,
                f"search.require speaks of `{name}`, which is no setting",
                listing(FIELDS),
                f"`{close}`" if close else "",
            )
    if not readable:
        return
    for arm in study.arms:
        for point in search_space.first_points(study, arm):
            broken = _broken(study, arm, point)
            if broken is not None:
                message = f"arm {arm}: search.first is against `{search.require[broken]}`"
                yield Fault(("search", "require", broken), message, "a first point that fits")
        draws = (search_space.random_draw(study, arm, seed) for seed in range(500))
        if search.require and all(_broken(study, arm, drawn) is not None for drawn in draws):
            message = f"arm {arm}: none of 500 random configurations satisfies search.require"
            yield Fault(("search", "require"), message, "constraints that leave something")


def _metric_faults(search: Search) -> Iterator[Fault]:
    """Metrics by which no trial can be judged, and what does not go with several."""
    path: Path = ("search", "metric")
    for i, metric in enumerate(search.metrics):
        if metric not in QUALITIES + COSTS:
            close = nearest(metric, QUALITIES + COSTS)
            yield Fault(
                (*path, i),
                f"search.metric has `{metric}`, by which no trial can be judged",
                listing(QUALITIES + COSTS),
                f"`{close}`" if close else "",
            )
            return
    first, rest = search.metric, search.metrics[1:]
    if first not in QUALITIES:
        yield Fault(
            (*path, 0),
            f"search.metric begins with {first}: the first metric decides who wins, and nobody "
            "wins by being cheap",
            f"first one of {listing(QUALITIES)}, then any of {listing(COSTS)}",
            f"metric: [{QUALITIES[0]}, {first}]",
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


def _grid_faults(study: Study) -> Iterator[Fault]:
    """Why the space of an arm cannot be tried point by point: a grid cut short is no grid."""
    search = study.search
    assert search is not None
    if search.budget is not None:
        yield Fault(
            ("search", "budget"),
            "search.budget could end an arm before sampler: grid has tried every configuration",
            "a budget with " + listing(s for s in SAMPLERS if s != "grid"),
            "leave out `budget:`; trials_per_arm bounds a grid",
        )
    searched = {n: p for arm in study.arms for n, p in search_space.arm_space(study, arm).items()}
    endless = [n for n, p in searched.items() if search_space.grid_values(n, p) is None]
    if endless:
        yield from (_continuum(name, searched[name]) for name in endless)
        return
    sizes: dict[str, int] = {}
    for arm in study.arms:
        fixed = study.fixed(arm, study.tuned_under)
        points = search_space.all_points(search_space.arm_space(study, arm), fixed)
        if points is None:
            message = (
                f"arm {arm} has more than {search_space.MOST_POINTS} configurations, too many for "
            )
            yield Fault(("search", "space"), message + "sampler: grid", _GRID_ALLOWED)
            return
        refused = next((p for p in points if not _is_config(fixed | p)), None)
        if refused is not None:
            message = f"arm {arm}: the grid holds a configuration that cannot be trained: {refused}"
            yield Fault(("search", "space"), message, "", "`require`, or `when` on a dimension")
            return
        sizes[arm] = sum(_broken(study, arm, point) is None for point in points)
    largest = max(sizes, key=lambda arm: sizes[arm])
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


def _is_config(settings: Settings) -> bool:
    try:
        TrainConfig(**settings)
    except ValidationError:
        return False
    return True


def _samples(study: Study, arm: str) -> Iterator[Settings]:
    """Full configurations of an arm: the ends of its space and some random ones."""
    space, fixed = search_space.arm_space(study, arm), study.fixed(arm, study.tuned_under)
    drawn = [search_space.random_draw(study, arm, seed) for seed in range(50)]
    for settings in [
        *(s for _, s in search_space.corners(space, fixed)),
        *(fixed | d for d in drawn),
    ]:
        with contextlib.suppress(ValidationError):  # told elsewhere
            yield vars(TrainConfig(**settings))


def _broken(study: Study, arm: str, drawn: Settings) -> int | None:
    """The first constraint that the configuration is against."""
    assert study.search is not None
    try:
        config = vars(TrainConfig(**(study.fixed(arm, study.tuned_under) | drawn)))
    except ValidationError:
        return None  # told elsewhere
    for i, constraint in enumerate(study.search.require):
        try:
            if not satisfied(constraint, config):
                return i
        except ValueError:
            return i
    return None


def _range(parameter: Parameter) -> str:
    if parameter.choices is not None:
        return listing(parameter.choices)
    return f"{parameter.low:g} to {parameter.high:g}"
