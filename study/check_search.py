"""Can the search of a study be carried out: its space, constraints, first points and rungs?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from contrastive.config import TrainConfig
from study import space as spaces
from study.check_settings import FIELDS
from study.faults import Fault, Path, listing, nearest
from study.length import epochs_of
from study.require import ALLOWED, names_in, satisfied
from study.spec import Parameter, Settings, Study


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
        spaces.ordered(search.space)
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
    rule = search.pruned
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
    yield from _require_faults(study)
    if not circular and not any(spaces.arm_space(study, arm) for arm in study.arms):
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
        for point in spaces.first_points(study, arm):
            broken = _broken(study, arm, point)
            if broken is not None:
                message = f"arm {arm}: search.first is against `{search.require[broken]}`"
                yield Fault(("search", "require", broken), message, "a first point that fits")
        draws = (spaces.random_draw(study, arm, seed) for seed in range(500))
        if search.require and all(_broken(study, arm, drawn) is not None for drawn in draws):
            message = f"arm {arm}: none of 500 random configurations satisfies search.require"
            yield Fault(("search", "require"), message, "constraints that leave something")


def _samples(study: Study, arm: str) -> Iterator[Settings]:
    """Full configurations of an arm: the ends of its space and some random ones."""
    space, fixed = spaces.arm_space(study, arm), study.fixed(arm, study.tuned_under)
    drawn = [spaces.random_draw(study, arm, seed) for seed in range(50)]
    for settings in [*(s for _, s in spaces.corners(space, fixed)), *(fixed | d for d in drawn)]:
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
