"""Is each single setting of a study one that TrainConfig knows, and within its bounds?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from contrastive.budget import ALLOWED, BUDGETS
from contrastive.config import TrainConfig
from study.design import search_space
from study.errors import Fault, Path, dotted, listing, nearest

FIELDS = tuple(f.name for f in fields(TrainConfig))


def settings_faults(data: Mapping[str, Any]) -> list[Fault]:
    """Faults of single settings in `trial`, `arms`, `conditions` and `search`, however rough."""
    faults: list[Fault] = []
    rooms: list[tuple[Path, Any]] = [(("trial",), data.get("trial"))]
    for room in ("arms", "conditions"):
        found = data.get(room)
        if isinstance(found, Mapping):
            rooms += [((room, name), settings) for name, settings in found.items()]
    trial = data.get("trial")
    default_loss = trial.get("loss") if isinstance(trial, Mapping) else None
    search = data.get("search")
    searched = search.get("space") if isinstance(search, Mapping) else None
    if not (isinstance(searched, Mapping) and "loss" in searched):
        default_loss = default_loss or TrainConfig().loss
    for path, settings in rooms:
        if isinstance(settings, Mapping):
            loss = default_loss if path[0] == "arms" else None
            faults += _settings_in(path, settings, loss)
    search = data.get("search")
    if isinstance(search, Mapping):
        faults += _space_values(search)
    return faults


def _settings_in(path: Path, settings: Mapping[Any, Any], default_loss: Any = None) -> list[Fault]:
    faults = []
    for name, value in settings.items():
        fault = setting_fault((*path, name), name, value)
        if fault:
            faults.append(fault)
        elif path[0] == "arms" and name in search_space.NOT_OF_ARMS:
            message = f"{dotted((*path, name))}: arms may not differ in `{name}`"
            allowed_ = "settings of the method; data and evaluation are the same for all arms"
            faults.append(Fault((*path, name), message, allowed_, f"trial: {{{name}: {value}}}"))
        elif path[0] == "conditions" and name == "loss":
            message = f"{dotted((*path, name))}: a condition may not set the loss of all arms"
            faults.append(Fault((*path, name), message, "a stress: noise, data, batch size"))
    loss = settings.get("loss", default_loss)
    if path[0] != "trial" and isinstance(loss, str) and loss in search_space.LOSS_OPTIONS:
        for name in settings:
            if name in FIELDS and search_space.unused_by(loss, name):
                takes = sorted(set(search_space.accepted(loss)) & set(FIELDS))
                message = f"{dotted((*path, name))}: the loss {loss} takes no {name}"
                faults.append(Fault((*path, name), message, listing(takes)))
    return faults


def setting_fault(path: Path, name: Any, value: Any) -> Fault | None:
    """What is wrong with one setting of TrainConfig, if anything."""
    if name not in FIELDS:
        close = nearest(name, FIELDS)
        return Fault(
            path,
            f"unknown setting `{dotted(path)}`",
            listing(FIELDS),
            f"`{close}`" if close else "",
        )
    try:
        _adapter(name).validate_python(value, strict=_strict(value))
    except ValidationError as error:
        if name == "budget":
            units = list(value) if isinstance(value, Mapping) else []
            close = nearest(units[0], BUDGETS) if units else None
            return Fault(
                path, f"{dotted(path)} is {value}", ALLOWED, f"{{{close or 'views'}: 600}}"
            )
        errors = error.errors(include_url=False)
        rules = list(dict.fromkeys(allowed(e["type"], e.get("ctx", {}), e["msg"]) for e in errors))
        close = None
        if isinstance(value, str):
            close = nearest(value, [n for rule in rules for n in rule.split(", ")])
        shown = repr(value) if isinstance(value, str) else value
        return Fault(
            path,
            f"{dotted(path)} is {shown}",
            " or ".join(rules),
            f"{name}: {close}" if close else "",
        )
    return None


def allowed(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What pydantic would have accepted, in few words."""
    words = {
        "greater_than": "a number above {gt}",
        "greater_than_equal": "a number of at least {ge}",
        "less_than": "a number below {lt}",
        "less_than_equal": "a number of at most {le}",
        "int_type": "a whole number",
        "int_parsing": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "float_parsing": "a number",
        "finite_number": "a finite number",
        "string_type": "a text",
        "bool_type": "true or false",
        "dict_type": "a mapping of keys to values",
        "model_type": "a mapping of keys to values",
        "list_type": "a list",
        "too_short": "at least {min_length}",
        "none_required": "nothing",
    }
    if kind == "literal_error":
        return listing(context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
    return words[kind].format(**context) if kind in words else message


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    hint = search_space.get_type_hints(TrainConfig, include_extras=True)[name]
    return TypeAdapter(hint)


def _strict(value: Any) -> bool:
    """Whole numbers may stand for floats, but no text for a number and no `true` for 1."""
    return isinstance(value, str | bool)


def _space_values(search: Mapping[str, Any]) -> list[Fault]:
    """Names and bounds in `search.space`, names in `search.first`."""
    faults: list[Fault] = []
    space = search.get("space")
    if isinstance(space, Mapping):
        for name, parameter in space.items():
            path: Path = ("search", "space", name)
            if name not in search_space.SEARCHABLE:
                faults.append(_not_searchable(path, name))
            elif isinstance(parameter, Mapping):
                choices = parameter.get("choices")
                ends = [((*path, k), parameter[k]) for k in ("low", "high") if k in parameter]
                step = parameter.get("step")
                if (
                    search_space.integral(name)
                    and isinstance(step, float)
                    and not step.is_integer()
                ):
                    message = f"{dotted((*path, 'step'))} is {step}, but {name} is a whole number"
                    faults.append(Fault((*path, "step"), message, "a whole number", "step: 1"))
                if isinstance(choices, list):
                    ends += [((*path, "choices", i), c) for i, c in enumerate(choices)]
                faults += [f for at, value in ends if (f := setting_fault(at, name, value))]
    return faults


def _not_searchable(path: Path, name: Any) -> Fault:
    close = nearest(name, search_space.SEARCHABLE)
    remedy = f"`{close}`" if close else ""
    if name in FIELDS:
        message = f"`{name}` cannot be searched: it defines the contest, the same for all arms"
        return Fault(path, message, listing(search_space.SEARCHABLE), f"trial: {{{name}: …}}")
    message = f"unknown setting `{dotted(path)}`"
    return Fault(path, message, listing(search_space.SEARCHABLE), remedy)
