"""Profiles, `--set` overrides and crossed arms, laid over a study file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from analysis.inputs.plain_yaml import Unusable, control_character
from study.errors import Fault, Path, dotted, listing, nearest
from study.spec import yaml_document
from study.spec.build import kind_of

MOST_ARMS = 1000


def apply_profile(document: yaml_document.Document, profile: str | None) -> list[Fault]:
    profiles = document.data.pop("profiles", None) or {}
    if not isinstance(profiles, dict):
        return [
            Fault(("profiles",), f"profiles is {kind_of(profiles)}", "profile names with settings")
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
    if not isinstance(profiles[profile] or {}, dict):
        what = f"profile {profile} is {kind_of(profiles[profile])}"
        return [
            Fault(
                ("profiles", profile),
                what,
                "a mapping of what it changes",
                f"{profile}: {{trial: {{…}}}}",
            )
        ]
    document.merge(profiles[profile] or {}, (), places)
    return []


def apply_override(document: yaml_document.Document, override: str) -> list[Fault]:
    key, equals, text = override.partition("=")
    if found := control_character(override, lines=True):
        message = f"--set {ascii(override)[1:-1]} contains a control character, {found}"
        return [Fault((), message, "text that can be shown")]
    if not equals or not key or not text.strip():
        message = f"--set {override} has no value"
        allowed = "--set KEY=VALUE, e.g. --set trial.epochs=5; --set search=null takes a key out"
        return [Fault((), message, allowed)]
    try:
        value = yaml_document.scalar(text)
    except Unusable as error:
        return [Fault((), f"--set {key}: {error.problem}", error.allowed, error.remedy)]
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


def cross_grids(document: yaml_document.Document) -> list[Fault]:
    """Replace `arms: {grid: {loss: [...], num_positives: [1, 2]}}` by the crossed arms."""
    arms = document.data.get("arms")
    if not isinstance(arms, dict) or "grid" not in arms:
        return []
    grid = arms["grid"]
    if not isinstance(grid, dict) or not all(isinstance(v, list) and v for v in grid.values()):
        message = "arms.grid crosses lists of levels"
        return [Fault(("arms", "grid"), message, "each setting with a list of values")]
    number = math.prod(len(levels) for levels in grid.values())
    if number > MOST_ARMS:
        message = f"arms.grid crosses its levels to {number:,} arms"
        return [Fault(("arms", "grid"), message, f"at most {MOST_ARMS} arms", "fewer levels")]
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


def replace_epochs_by_budget(document: yaml_document.Document) -> None:
    """`epochs: null` beside a budget: a profile or --set replaces the file's epochs by it."""
    trial = document.data.get("trial")
    if isinstance(trial, dict) and trial.get("budget") and trial.get("epochs", 0) is None:
        del trial["epochs"]
