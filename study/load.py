"""How does a study file, a profile and `--set` become one checked study?"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from study import check, check_settings, yamlfile
from study.faults import Fault, Path, SpecError, StudyError, dotted, listing, nearest
from study.spec import (
    Budget,
    Confirm,
    EarlyStopping,
    Parameter,
    Rechecks,
    Resources,
    Search,
    Study,
)

# Names become folders, MLflow runs and labels in figures.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,79}")
_NAME_RULE = "letters, digits and _ . + = -, beginning with a letter or digit, at most 80"


def load_study(
    file: str | os.PathLike[str],
    *,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    data: bool = True,
) -> Study:
    """Read, resolve and check a study.

    Args:
        file: the YAML file.
        profile: one of its `profiles`, laid over the rest.
        overrides: `KEY=VALUE` with a dotted key and a YAML value, laid over both.
        name: instead of the file's `name`.
        data: look at the datasets too (this fills their cache).

    Raises:
        SpecError: lists every fault that was found, with its place.
        StudyError: the file cannot be read.
    """
    document = _read(FilePath(file))
    faults = list(document.faults)
    if not isinstance(document.data, dict):
        message = f"the file holds {_kind(document.data)}, not a study"
        raise _error(
            [Fault((), message, "a mapping with the keys " + listing(_keys(())))], document
        )
    faults += _apply_profile(document, profile)
    for override in overrides:
        faults += _apply_override(document, override)
    if name is not None:
        document.data["name"] = name
        document.places[("name",)] = "--name"
    faults += _cross_grids(document)
    _take_back_epochs(document)
    study, shape_faults = _build(document.data)
    faults += shape_faults
    faults += _name_faults(document.data)
    if study is None or faults:
        faults += check_settings.settings_faults(document.data)
    else:
        faults += check.study_faults(study, data=data)
    if faults:
        raise _error(faults, document)
    assert study is not None
    return study


def study_from(text: str, shown: str) -> Study:
    """A study from the resolved `study.yaml` of a study's folder, trusted to be checked."""
    document = yamlfile.parse(text, shown)
    data = {key: value for key, value in document.data.items() if key in Study.model_fields}
    study, faults = _build(data)
    if study is None:
        raise _error(faults, document)
    return study


def _read(file: FilePath) -> yamlfile.Document:
    try:
        return yamlfile.read(file, str(file))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise StudyError(
            f"{file}:{line}: not valid YAML: {error.problem or error.context}\n"
            "  allowed: YAML as in search_spaces/pos.yaml\n"
            "  try: look at the indentation, quotes and colons of this line and the one before"
        ) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        here = sorted(str(found) for found in FilePath("search_spaces").glob("*.yaml"))
        raise StudyError(
            f"{file}: cannot be read as a study: {reason}\n"
            f"  allowed: the path of a YAML file{': ' + listing(here) if here else ''}"
        ) from None


def _apply_profile(document: yamlfile.Document, profile: str | None) -> list[Fault]:
    profiles = document.data.pop("profiles", None) or {}
    if not isinstance(profiles, dict):
        return [
            Fault(("profiles",), f"profiles is {_kind(profiles)}", "profile names with settings")
        ]
    if profile is None:
        return []
    if profile not in profiles:
        close = nearest(profile, profiles)
        return [
            Fault(
                ("profiles",),
                f"there is no profile `{profile}`",
                listing(profiles) or "none: the file defines no profiles",
                f"--profile {close}" if close else "",
            )
        ]
    at: Path = ("profiles", profile)
    places = {p[2:]: place for p, place in document.places.items() if p[:2] == at}
    document.merge(profiles[profile] or {}, (), places)
    return []


def _apply_override(document: yamlfile.Document, override: str) -> list[Fault]:
    key, equals, text = override.partition("=")
    if not equals or not key or not text.strip():
        message = f"--set {override} has no value"
        allowed = "--set KEY=VALUE, e.g. --set trial.epochs=5; --set search=null takes a key out"
        return [Fault((), message, allowed)]
    try:
        value = yamlfile.scalar(text)
    except yaml.YAMLError:
        return [Fault((), f"--set {override}: the value is not valid YAML", "a YAML value")]
    path: Path = tuple(key.split("."))
    before = document.find(path)
    if value == {} and isinstance(before, dict) and before:
        return [_changes_nothing(path, before)]
    # A setting may be null, "none of it"; of anything else null is nothing to go by.
    if value is None and before is not None and not _is_setting(path):
        document.remove(path)
    else:
        document.merge(value, path, _option_places(value, f"--set {key}"))
    return []


def _changes_nothing(path: Path, before: Mapping[Any, Any]) -> Fault:
    key = dotted(path)
    needed = {
        "arms": f"--set arms.{next(iter(before))}=null",
        "search.space": f"--set search.space.{next(iter(before))}=null",
        "confirm": "--set confirm.seeds=8",
    }
    return Fault(
        path,
        f"--set {key}={{}} would change nothing: mappings are merged",
        "the keys to change with their values, or null, which takes a key out",
        needed.get(key, f"--set {key}=null"),
    )


def _is_setting(path: Path) -> bool:
    """Whether the key is one of TrainConfig's, in `trial`, an arm or a condition."""
    return len(path) == (2 if path[0] == "trial" else 3) and path[0] in (
        "trial",
        "arms",
        "conditions",
    )


def _option_places(value: Any, option: str) -> dict[Path, str]:
    places: dict[Path, str] = {(): option}
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        places |= {(key, *p): place for p, place in _option_places(below, option).items()}
    return places


def _cross_grids(document: yamlfile.Document) -> list[Fault]:
    """Replace `arms: {grid: {loss: [...], num_positives: [1, 2]}}` by the crossed arms."""
    arms = document.data.get("arms")
    if not isinstance(arms, dict) or "grid" not in arms:
        return []
    grid = arms["grid"]
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        message = "arms.grid crosses lists of levels"
        return [Fault(("arms", "grid"), message, "each setting with a list of values")]
    crossed: dict[str, Any] = {}
    for levels in itertools.product(*grid.values()):
        settings = dict(zip(grid, levels, strict=True))
        name = "-".join(v if isinstance(v, str) else f"{k}={v}" for k, v in settings.items())
        crossed[name] = settings
        for key in settings:
            place = document.place(("arms", "grid", key))
            document.places[("arms", name, key)] = place
        document.places[("arms", name)] = document.place(("arms", "grid"))
    document.data["arms"] = {k: v for k, v in arms.items() if k != "grid"} | crossed
    return []


def _take_back_epochs(document: yamlfile.Document) -> None:
    """`epochs: null` beside a budget: a profile or --set replaces the file's epochs by it."""
    trial = document.data.get("trial")
    if isinstance(trial, dict) and trial.get("budget") and trial.get("epochs", 0) is None:
        del trial["epochs"]


def _build(data: dict[str, Any]) -> tuple[Study | None, list[Fault]]:
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
        known = _keys(path[:-1])
        close = nearest(path[-1], known)
        return Fault(path, f"unknown key `{shown}`", listing(known), f"`{close}`" if close else "")
    if kind == "missing":
        return Fault(path[:-1], f"`{shown}` is missing", *_EXAMPLES.get(path[-1], ("", "")))
    if kind == "value_error":
        return Fault(path, f"{shown}: {context['error']}")
    return Fault(
        path, f"{shown} is {_show(value)}", check_settings.allowed(kind, context, details["msg"])
    )


_EXAMPLES = {
    "name": (_NAME_RULE, "name: pos"),
    "arms": ("named sets of settings", "arms: {contrastive: {loss: contrastive}}"),
    "confirm": ("the confirmation phase", "confirm: {seeds: 8}"),
    "seeds": ("a number of seeds or a list of them", "seeds: 8"),
    "space": ("the settings to search", "space: {temperature: {low: 0.1, high: 1.0}}"),
    "trials_per_arm": ("a whole number of at least 1", "trials_per_arm: 12"),
    "grace_epochs": ("a whole number of at least 1", "grace_epochs: 3"),
}

_MODELS: dict[Path, type[BaseModel]] = {
    (): Study,
    ("search",): Search,
    ("search", "early_stopping"): EarlyStopping,
    ("search", "rechecks"): Rechecks,
    ("search", "budget"): Budget,
    ("confirm",): Confirm,
    ("resources",): Resources,
}


def _keys(path: Path) -> list[str]:
    """The keys allowed at a place of the file."""
    if path[:2] == ("search", "space"):
        return list(Parameter.model_fields)
    model = _MODELS.get(path)
    keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
    return [*keys, "profiles"] if path == () else keys


def _is_branch(part: object) -> bool:
    """Whether pydantic added this part of a location to say which type of a union it tried."""
    return isinstance(part, str) and (
        part
        in (
            "EarlyStopping",
            "Budget",
            "Rechecks",
            "int",
            "float",
            "constrained-int",
            "constrained-float",
        )
        or part.startswith(("literal[", "list[", "constrained-", "function-"))
    )


def _name_faults(data: dict[str, Any]) -> list[Fault]:
    named: list[tuple[Path, Any]] = [(("name",), data["name"])] if "name" in data else []
    for room in ("arms", "conditions"):
        if isinstance(data.get(room), dict):
            named += [((room, name), name) for name in data[room]]
    return [
        Fault(path, f"`{name}` cannot be a name", _NAME_RULE)
        for path, name in named
        if not (isinstance(name, str) and NAME.fullmatch(name))
    ]


def _error(faults: Sequence[Fault], document: yamlfile.Document) -> SpecError:
    """The faults without repetitions, in the order of the file."""
    unique = list(dict.fromkeys(faults))
    places = [document.place(fault.path) for fault in unique]
    in_order = sorted(zip(unique, places, strict=True), key=lambda pair: _line(pair[1]))
    return SpecError([fault for fault, _ in in_order], [place for _, place in in_order])


def _line(place: str) -> tuple[bool, int]:
    number = place.rpartition(":")[2]
    return (not number.isdigit(), int(number) if number.isdigit() else 0)


def _kind(value: Any) -> str:
    if value is None or value == {}:
        return "nothing"
    return {dict: "a mapping", list: "a list", str: "a text"}.get(type(value), f"`{value}`")


def _show(value: Any) -> str:
    text = "empty" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
