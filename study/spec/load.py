"""From a study file, a profile and `--set` to one checked study."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import yaml

from analysis.inputs.plain_yaml import Unusable, control_character
from study.design import RECORDED, Study
from study.errors import Fault, StudyError, first_line, listing
from study.spec import settings_checks, study_checks, yaml_document
from study.spec.build import build, keys_at, kind_of, name_faults, spec_error
from study.spec.find_workload import find_workload
from study.spec.overrides import (
    apply_override,
    apply_profile,
    cross_grids,
    replace_epochs_by_budget,
)


def load_study(
    file: str | os.PathLike[str] | Mapping[str, Any],
    *,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    data: bool = True,
) -> Study:
    """Read, resolve and check a study.

    Args:
        file: the YAML file, or its content as a mapping; or the `study.yaml` in a study's folder.
        profile: one of its `profiles`, laid over the rest.
        overrides: `KEY=VALUE` with a dotted key and a YAML value, laid over both.
        name: instead of the file's `name`.
        data: look at the datasets too (this fills their cache).

    Raises:
        SpecError: lists every fault that was found, with its place.
        StudyError: the file cannot be read.
    """
    if isinstance(file, Mapping):
        document, beside = yaml_document.of_data(file, "the study"), FilePath.cwd()
    else:
        document, beside = _read(FilePath(file)), FilePath(file).resolve().parent
    # What a profile or --set takes out is no mistake where it is asked about; of a study's own
    # record it is not known what has been taken out.
    written = None if _is_record(document.data) else frozenset(_values(document.data))
    beside = _as_recorded(document, beside)
    if not isinstance(document.data, dict):
        message = f"the file holds {kind_of(document.data)}, not a study"
        raise spec_error(
            [Fault((), message, "a mapping with the keys " + listing(keys_at(())))], document
        )
    others = _with_other_profiles(document, profile)
    faults = [*document.faults, *apply_profile(document, profile)]
    for override in overrides:
        faults += apply_override(document, override)
    if name is not None:
        document.data["name"] = name
        document.places[("name",)] = "--name"
    study, faults = _checked(document, beside, faults, data=data, written=written)
    if faults:
        raise spec_error(faults, document)
    for title, other in others:
        _check_other(title, other, beside, written)
    assert study is not None
    return study


def _checked(
    document: yaml_document.Document,
    beside: FilePath,
    faults: list[Fault],
    *,
    data: bool,
    written: frozenset[str] | None,
) -> tuple[Study | None, list[Fault]]:
    """The study of a document, and its faults with those that were found before."""
    faults = [*faults, *cross_grids(document)]
    replace_epochs_by_budget(document)
    workload, workload_faults = find_workload(document.data, beside)
    faults += workload_faults
    study, shape_faults = build(document.data)
    faults += shape_faults
    faults += name_faults(document.data)
    if workload is None:
        return None, faults
    if study is None or faults:
        faults += settings_checks.settings_faults(document.data, workload)
    else:
        faults += study_checks.study_faults(study.bind(workload), data=data, written=written)
    return study, faults


def _with_other_profiles(
    document: yaml_document.Document, chosen: str | None
) -> list[tuple[str, yaml_document.Document]]:
    """The document once more for each profile that is not chosen."""
    profiles = document.data.get("profiles")
    others = [name for name in profiles if name != chosen] if isinstance(profiles, dict) else []
    return [(name, document.copied()) for name in others]


def _check_other(
    name: str, other: yaml_document.Document, beside: FilePath, written: frozenset[str] | None
) -> None:
    """Refuse a profile that would be refused if it were chosen, before somebody counts on it.

    Only for what it writes itself: the rest may wait for a `--set`.
    """
    own = {place for path, place in other.places.items() if path[:2] == ("profiles", name)}
    faults = apply_profile(other, name)
    if not faults:
        _, found = _checked(other, beside, [], data=False, written=written)
        faults = [fault for fault in found if other.place(fault.path) in own]
    if faults:
        raise spec_error(
            [Fault(f.path, f"profile {name}: {f.message}", f.allowed, f.remedy) for f in faults],
            other,
        )


def _as_recorded(document: yaml_document.Document, beside: FilePath) -> FilePath:
    """Make a study file of what a study's folder has; its own code lies where it lay before."""
    data = document.data
    if not _is_record(data):
        return beside
    for name in RECORDED:
        data.pop(name, None)
    return FilePath(str(data.pop("beside", beside)))


def _is_record(data: Any) -> bool:
    return isinstance(data, dict) and {"id", "hash"} <= data.keys()


def _values(data: Any) -> Iterator[str]:
    """All values that a study file mentions, but for those that a `when` asks about."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key != "when":
                yield from _values(value)
    elif isinstance(data, list):
        for value in data:
            yield from _values(value)
    else:
        yield str(data)


def _read(path: FilePath) -> yaml_document.Document:
    file = str(path) if control_character(str(path)) is None else ascii(str(path))
    try:
        return yaml_document.read(path, file)
    except Unusable as error:
        lines = (("allowed", error.allowed), ("try", error.remedy))
        hints = "".join(f"\n  {title}: {text}" for title, text in lines if text)
        raise StudyError(f"{file}:{error.problem_mark.line + 1}: {error.problem}{hints}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise StudyError(
            f"{file}:{line}: not valid YAML: {error.problem or error.context}\n"
            "  allowed: YAML as in search_spaces/pos.yaml\n"
            "  try: look at the indentation, quotes and colons of this line and the one before"
        ) from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # a path with a NUL, no UTF-8
        reason = getattr(error, "strerror", None) or first_line(error)
        here = sorted(str(found) for found in FilePath("search_spaces").glob("*.yaml"))
        raise StudyError(
            f"{file}: cannot be read as a study: {reason}\n"
            f"  allowed: the path of a YAML file{': ' + listing(here) if here else ''}"
        ) from None
