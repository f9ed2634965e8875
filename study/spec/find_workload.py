"""The workload that a study file names, with the metrics that it declares filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from study.design import Study
from study.errors import Fault, Path
from study.workload import (
    FunctionWorkload,
    SettingsError,
    Workload,
    load_object,
    load_workload,
)

DEFAULT = "contrastive"


def find_workload(data: dict[str, Any], beside: FilePath) -> tuple[Workload | None, list[Fault]]:
    """Import the workload and the user's own parts of it; fill in what it declares.

    Args:
        data: of the study file; `metrics`, `search.metric`, `confirm.metrics` and, where something
            of the user's own is named, `beside` are filled in.
        beside: folder of the study file.

    Returns:
        None, and the reason, where there is no such workload.
    """
    name = data.get("workload", DEFAULT)
    declared = data.get("metrics")
    declared = declared if isinstance(declared, Mapping) else {}
    if not isinstance(name, str):
        allowed = "contrastive, or module:function with a function of yours"
        return None, [Fault(("workload",), f"workload is {name}", allowed)]
    written = list(_written(data))
    if ":" in name or any(":" in str(value) for _, value in written):
        data["beside"] = str(beside)
    try:
        workload = load_workload(name, str(beside), declared)
        trainings = list(_trainings(data))
        workload = workload.extended(trainings, lambda part: load_object(part, str(beside)))
    except ValueError as error:
        return None, [fault_of(error, _place(written, error) or ("workload",))]
    if isinstance(workload, FunctionWorkload) and not declared:
        remedy = "metrics: {val/error: {better: lower}, test/error: {better: lower}}"
        missing = f"metrics: {name} reports metrics that the study does not declare"
        return workload, [Fault((), missing, "each metric with better: higher or lower", remedy)]
    _fill_in(data, workload, declared)
    return workload, []


def resolved(data: Mapping[str, Any], beside: str | FilePath = "") -> Study:
    """A study from plain data whose shape is right, with its workload; nothing else is checked.

    Raises:
        SettingsError: there is no such workload.
        pydantic.ValidationError: the shape is wrong.
    """
    filled = dict(data)
    workload, faults = find_workload(filled, FilePath(beside))
    if workload is None:
        raise SettingsError(faults[0].message, allowed=faults[0].allowed)
    return Study.model_validate(filled).bind(workload)


def fault_of(error: ValueError, path: Path) -> Fault:
    """A workload's refusal as a fault of the study file."""
    return Fault(path, str(error), getattr(error, "allowed", ""), getattr(error, "remedy", ""))


def _fill_in(data: dict[str, Any], workload: Workload, declared: Mapping[str, Any]) -> None:
    """The workload's metrics, and those that decide where the file does not say."""
    known = {name: dict(spec) for name, spec in workload.metrics.items()}
    data["metrics"] = known | {
        name: known.get(name, {}) | spec if isinstance(spec, Mapping) else spec
        for name, spec in declared.items()
    }
    search, confirm = data.get("search"), data.get("confirm")
    names = [name for name in declared if isinstance(name, str)]
    tuned = [n for n in names if not n.startswith("test/")]
    judged_by = workload.search_metric or (tuned[0] if len(tuned) == 1 else "")
    if isinstance(search, dict) and "metric" not in search and judged_by:
        data["search"] = search | {"metric": judged_by}
    tested = list(workload.confirm_metrics) or [n for n in names if n.startswith("test/")]
    if isinstance(confirm, dict) and "metrics" not in confirm and tested:
        data["confirm"] = confirm | {"metrics": tested}


def _trainings(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Settings as trainings may combine them: trial with each arm, condition and choice."""
    trial = data.get("trial")
    trial = dict(trial) if isinstance(trial, Mapping) else {}
    yield trial
    for path, value in _written(data):
        if path[0] == "search":
            yield trial | {str(path[2]): value}
    for room in ("arms", "conditions"):
        named = data.get(room)
        for settings in named.values() if isinstance(named, Mapping) else ():
            if isinstance(settings, Mapping):
                yield trial | dict(settings)


def _written(data: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Every setting that the file writes in trial, arms, conditions and choices, with its path."""
    rooms: list[tuple[Path, Any]] = [(("trial",), data.get("trial"))]
    for room in ("arms", "conditions"):
        named = data.get(room)
        if isinstance(named, Mapping):
            rooms += [((room, name), settings) for name, settings in named.items()]
    for path, settings in rooms:
        if isinstance(settings, Mapping):
            yield from (((*path, name), value) for name, value in settings.items())
    search = data.get("search")
    space = search.get("space") if isinstance(search, Mapping) else None
    for name, parameter in space.items() if isinstance(space, Mapping) else ():
        choices = parameter.get("choices") if isinstance(parameter, Mapping) else None
        for i, value in enumerate(choices if isinstance(choices, list) else ()):
            yield ("search", "space", name, "choices", i), value


def _place(written: list[tuple[Path, Any]], error: ValueError) -> Path | None:
    """Where the setting is written that the error is about."""
    for name in getattr(error, "settings", ()):
        for path, value in written:
            if name in path and str(value) in str(error):
                return path
    return None
