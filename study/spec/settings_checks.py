"""Checks of single settings: known to the workload, of the right type, within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from study.errors import Fault, Path, dotted, listing, nearest
from study.workload import Workload
from study.workload import settings as types


def settings_faults(data: Mapping[str, Any], workload: Workload) -> list[Fault]:
    """Faults of single settings in `trial`, `arms`, `conditions` and `search`, however rough."""
    trial = data.get("trial")
    search = data.get("search")
    space = search.get("space") if isinstance(search, Mapping) else None
    faults: list[Fault] = []
    if isinstance(trial, Mapping):
        faults += _settings_in(("trial",), trial, workload)
    for room in ("arms", "conditions"):
        named = data.get(room)
        for name, settings in named.items() if isinstance(named, Mapping) else ():
            if isinstance(settings, Mapping):
                faults += _settings_in((room, name), settings, workload)
                faults += _misplaced((room, name), settings, workload)
            if isinstance(settings, Mapping) and room == "arms":
                common = dict(trial) if isinstance(trial, Mapping) else {}
                faults += _without_effect((room, name), settings, common, space, workload)
    if isinstance(space, Mapping):
        for name, parameter in space.items():
            faults += _dimension(("search", "space", name), name, parameter, workload)
    return faults


def setting_fault(path: Path, name: Any, value: Any, workload: Workload) -> Fault | None:
    """What is wrong with one setting of the workload, if anything."""
    if name not in workload.hints and not workload.open:
        close = nearest(name, workload.hints)
        return Fault(
            path,
            f"unknown setting `{dotted(path)}`",
            listing(workload.hints),
            f"`{close}`" if close else "",
        )
    wrong = types.wrong(name, workload.hints.get(name, Any), value)
    if wrong is None:
        return None if _is_finite(value) else _is(path, value, "finite numbers")
    return _is(path, value, *(workload.explain(name, value) or wrong))


def _is(path: Path, value: Any, allowed: str, remedy: str = "") -> Fault:
    shown = repr(value) if isinstance(value, str) else value
    return Fault(path, f"{dotted(path)} is {shown}", allowed, remedy)


def _is_finite(value: Any) -> bool:
    """Whether it holds no infinite number, which the study's record, JSON, could not."""
    try:
        json.dumps(value, allow_nan=False, default=str)
    except ValueError:
        return False
    return True


def searchable(workload: Workload) -> list[str]:
    """The settings that a search may draw, in the workload's order."""
    return [name for name in workload.hints if name not in workload.not_searched]


def _settings_in(path: Path, settings: Mapping[Any, Any], workload: Workload) -> list[Fault]:
    found = (setting_fault((*path, n), n, value, workload) for n, value in settings.items())
    return [fault for fault in found if fault]


def _misplaced(path: Path, settings: Mapping[Any, Any], workload: Workload) -> Iterator[Fault]:
    """Settings that arms, or conditions, may not set."""
    for name, value in settings.items():
        at = (*path, name)
        if path[0] == "arms" and name in workload.not_of_arms:
            message = f"{dotted(at)}: arms may not differ in `{name}`"
            allowed = "settings of the method; data and evaluation are the same for all arms"
            yield Fault(at, message, allowed, f"trial: {{{name}: {value}}}")
        elif path[0] == "conditions" and name in workload.not_of_conditions:
            message = f"{dotted(at)}: a condition may not set the {name} of all arms"
            yield Fault(at, message, "a stress: noise, data, batch size")


def _without_effect(
    path: Path,
    settings: Mapping[Any, Any],
    trial: Mapping[Any, Any],
    space: Any,
    workload: Workload,
) -> Iterator[Fault]:
    """Settings of an arm that its own choice of method does not take."""
    values = dict(workload.defaults) | trial | settings
    drawn: list[dict[str, Any]] = [{}]
    for name, parameter in space.items() if isinstance(space, Mapping) else ():
        choices = parameter.get("choices") if isinstance(parameter, Mapping) else None
        if name not in settings and isinstance(choices, list):
            drawn += [{name: choice} for choice in choices if isinstance(choice, str)]
    for name in settings:
        if name not in workload.hints:
            continue
        if not any(workload.applies(name, values | chosen) for chosen in drawn):
            message, allowed = workload.unused(name, values)
            yield Fault((*path, name), f"{dotted((*path, name))}: {message}", allowed)


def _dimension(path: Path, name: Any, parameter: Any, workload: Workload) -> Iterator[Fault]:
    """The name and the bounds of a dimension of the search space."""
    if name in workload.not_searched or (name not in workload.hints and not workload.open):
        yield _not_searchable(path, name, workload)
        return
    if not isinstance(parameter, Mapping):
        return
    ends: list[tuple[Path, Any]] = [
        ((*path, end), parameter[end]) for end in ("low", "high") if end in parameter
    ]
    step = parameter.get("step")
    whole = types.integral(workload.hints.get(name))
    if whole and isinstance(step, float) and not step.is_integer():
        message = f"{dotted((*path, 'step'))} is {step}, but {name} is a whole number"
        yield Fault((*path, "step"), message, "a whole number", "step: 1")
    choices = parameter.get("choices")
    if isinstance(choices, list):
        ends += [((*path, "choices", i), choice) for i, choice in enumerate(choices)]
    for at, value in ends:
        fault = setting_fault(at, name, value, workload)
        if fault:
            yield fault


def _not_searchable(path: Path, name: Any, workload: Workload) -> Fault:
    names = searchable(workload)
    if name in workload.not_searched:
        message = f"`{name}` cannot be searched: it defines the contest, the same for all arms"
        return Fault(path, message, listing(names), f"trial: {{{name}: …}}")
    close = nearest(name, names)
    message = f"unknown setting `{dotted(path)}`"
    return Fault(path, message, listing(names), f"`{close}`" if close else "")
