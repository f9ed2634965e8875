"""From plain data to a `Study`, with pydantic's errors in this project's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from analysis.spreadsheet import FORMULA
from study.design import (
    Budget,
    Confirm,
    EarlyStopping,
    Figures,
    Metric,
    Parameter,
    Rechecks,
    Resources,
    Search,
    Study,
)
from study.errors import Fault, Path, SpecError, dotted, listing, nearest
from study.spec import yaml_document
from study.workload import allowed

# Names become folders, MLflow runs and labels in figures.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,79}")
_QUOTES = "'\""
_NAME_RULE = "letters, digits and _ . + = -, beginning with a letter or digit, at most 80"


def build(data: dict[str, Any]) -> tuple[Study | None, list[Fault]]:
    try:
        return Study.model_validate(data), []
    except ValidationError as error:
        return None, [_fault(details) for details in error.errors(include_url=False)]


def _fault(details: Any) -> Fault:
    """One of pydantic's errors in this project's words."""
    raw = details["loc"]
    path = tuple(part for part in raw if not _is_branch(part))
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    shown = dotted(path)
    if kind == "extra_forbidden":
        known = keys_at(path[:-1])
        close = nearest(path[-1], known)
        return Fault(path, f"unknown key `{shown}`", listing(known), f"`{close}`" if close else "")
    if kind == "missing":
        return Fault(path[:-1], f"`{shown}` is missing", *_EXAMPLES.get(path[-1], ("", "")))
    if kind == "value_error":
        return Fault(path, f"{shown}: {context['error']}")
    return Fault(path, f"{shown} is {_show(value)}", allowed(kind, context, details["msg"]))


_EXAMPLES = {
    "name": (_NAME_RULE, "name: pos"),
    "arms": ("named sets of settings", "arms: {contrastive: {loss: contrastive}}"),
    "confirm": ("the confirmation phase", "confirm: {seeds: 8}"),
    "seeds": ("a number of seeds or a list of them", "seeds: 8"),
    "space": ("the settings to search", "space: {temperature: {low: 0.1, high: 1.0}}"),
    "trials_per_arm": ("a whole number of at least 1", "trials_per_arm: 12"),
    "grace_epochs": ("a whole number of at least 1", "grace_epochs: 3"),
    "better": ("higher or lower", "better: lower"),
    "metric": ("the metric by which trials are judged", "metric: val/error"),
    "metrics": ("the metrics that claims are about", "metrics: [test/error]"),
}

_MODELS: dict[Path, type[BaseModel]] = {
    (): Study,
    ("search",): Search,
    ("search", "early_stopping"): EarlyStopping,
    ("search", "rechecks"): Rechecks,
    ("search", "budget"): Budget,
    ("confirm",): Confirm,
    ("figures",): Figures,
    ("resources",): Resources,
}


def keys_at(path: Path) -> list[str]:
    """The keys allowed at a place of the file."""
    if path[:2] == ("search", "space"):
        return list(Parameter.model_fields)
    if path[:1] == ("metrics",):
        return list(Metric.model_fields)
    model = _MODELS.get(path)
    keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
    keys = [key for key in keys if key != "beside"]  # written by us, not by users
    return [*keys, "profiles"] if path == () else keys


def _is_branch(part: object) -> bool:
    """Whether pydantic added this part of a location to say which type of a union it tried."""
    return isinstance(part, str) and (
        part
        in (
            "EarlyStopping",
            "Budget",
            "Rechecks",
            "Figures",
            "int",
            "float",
            "constrained-int",
            "constrained-float",
        )
        or part.startswith(("literal[", "list[", "constrained-", "function-"))
    )


def name_faults(data: dict[str, Any]) -> list[Fault]:
    named: list[tuple[Path, Any]] = [(("name",), data["name"])] if "name" in data else []
    for room in ("arms", "conditions"):
        if isinstance(data.get(room), dict):
            named += [((room, name), name) for name in data[room]]
    metrics = data.get("metrics")
    return [
        Fault(path, f"`{_show(name).strip(_QUOTES)}` cannot be a name", _NAME_RULE)
        for path, name in named
        if not (isinstance(name, str) and NAME.fullmatch(name))
    ] + [
        Fault(
            ("metrics", name),
            f"`{name}` cannot be a metric's name: in results.csv a spreadsheet would run it",
            "names that begin with a letter, such as val/error",
        )
        for name in (metrics if isinstance(metrics, dict) else ())
        if str(name).startswith(FORMULA)
    ]


def spec_error(faults: Sequence[Fault], document: yaml_document.Document) -> SpecError:
    """The faults without repetitions, in the order of the file."""
    unique = list(dict.fromkeys(faults))
    places = [document.place(fault.path) for fault in unique]
    in_order = sorted(zip(unique, places, strict=True), key=lambda pair: _line(pair[1]))
    return SpecError([fault for fault, _ in in_order], [place for _, place in in_order])


def _line(place: str) -> tuple[bool, int]:
    number = place.rpartition(":")[2]
    return (not number.isdigit(), int(number) if number.isdigit() else 0)


def kind_of(value: Any) -> str:
    if value is None or value == {}:
        return "nothing"
    return {dict: "a mapping", list: "a list", str: "a text"}.get(type(value), f"`{value}`")


def _show(value: Any) -> str:
    text = "empty" if value is None else repr(value) if isinstance(value, str) else str(value)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 60 else text[:57] + "..."
