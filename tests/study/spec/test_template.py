"""Is what `new` writes a study, and does the schema accept studies and refuse typos?"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from study.errors import StudyError
from study.spec.load import load_study
from study.spec.template import schema, template

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "docs" / "study.schema.json"
STUDIES = sorted([*ROOT.glob("search_spaces/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")])
POS = yaml.safe_load((ROOT / "search_spaces" / "pos.yaml").read_text())

# Parameters of a training function, each set an awkward one for a template.
PARAMETERS = {
    "plain": "rate: float = 0.1, width: int = 8, epochs: int = 5",
    "bounds": (
        "kind: Literal['a', 'b'] = 'a', keep: Annotated[float, Field(gt=0, le=1)] = 0.5, "
        "depth: Annotated[int, Field(ge=1, le=3)] = 3, "
        "one: Annotated[float, Field(ge=1, le=1)] = 1.0"
    ),
    "all kinds": (
        "name: str = 'x', flag: bool = True, layers: list[int] = [1, 2], decay: float = 0.0, "
        "limit: int | None = None, one: int = 1, huge: int = 10**7, tiny: float = 1e-9, below=-3"
    ),
    "one": "rate: float = 0.1, epochs: int = 5",
    "no epochs": "rate: float = 0.1",
    "no defaults": "rate: float, kind: Literal['a', 'b'], flag: bool, name: str, width: int",
    "no types": "rate=0.1, width=8, kind='a'",
}


def write(folder: Path, parameters: str) -> None:
    lines = ["from typing import Annotated, Literal", "from pydantic import Field"]
    lines.append(f"def train(run, {parameters}): run.report(1, {{'val/error': 0}})")
    (folder / "my_training.py").write_text("\n".join(lines))


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_written_for_a_function_is_a_study(tmp_path, name: str):
    write(tmp_path, "*, " + PARAMETERS[name])
    file = tmp_path / "mine.yaml"
    file.write_text(template("mine", "my_training:train", beside=str(tmp_path)))
    assert set(load_study(file).arms) == {"first", "second"}
    jsonschema.validate(yaml.safe_load(file.read_text()), schema())


@pytest.mark.parametrize(
    "name",
    [
        "mine",
        "my study",
        "2026",
        "on",
        "null",
        "1e3",
        "café",
        "-",
        "a/b",
        "..",
        "x: y",
        "_",
        "+1",
        "2026-11-21",
        "x" * 99,
    ],
)
def test_any_file_name_becomes_a_name_that_a_study_may_have(tmp_path, name: str):
    file = tmp_path / "study.yaml"
    file.write_text(template(name, None, beside=str(tmp_path)))
    assert load_study(file, data=False).name


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("*, epochs: int = 5", "no setting that two arms could differ in"),
        ("**settings", "no setting that two arms could differ in"),
    ],
)
def test_a_function_without_anything_to_compare(tmp_path, parameters: str, said: str):
    write(tmp_path, parameters)
    with pytest.raises(StudyError, match=said):
        template("mine", "my_training:train", beside=str(tmp_path))


def test_ranges_stay_within_the_bounds_of_the_types(tmp_path):
    write(tmp_path, "*, " + PARAMETERS["bounds"])
    text = template("mine", "my_training:train", beside=str(tmp_path))
    assert "keep: {low: 0.05, high: 1.0, log: true}" in text
    assert "depth: {low: 1, high: 3}" in text
    assert "one: {choices: [1.0]}" in text


def test_the_committed_schema_is_the_one_that_the_code_gives():
    """python -m study.spec.template > docs/study.schema.json"""
    assert json.loads(COMMITTED.read_text()) == schema()


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("file", STUDIES, ids=lambda f: str(f.relative_to(ROOT)))
def test_every_shipped_study_fits_the_schema(file: Path):
    jsonschema.validate(yaml.safe_load(file.read_text()), schema())


@pytest.mark.parametrize(
    "rule", ["none", "asha", "median", "wilcoxon", {"rule": "asha", "grace_epochs": 2}]
)
def test_what_may_be_written_short_may_be_written_short(rule):
    study = copy.deepcopy(POS)
    study["search"] |= {"early_stopping": rule, "metric": ["val/knn_top1", "views"]}
    study["search"]["require"] = "batch_size <= 512"
    study["confirm"]["seeds"] = [4, 5, 6]
    jsonschema.validate(study, schema())


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("serach",), {}),
        (("confrim",), {"seeds": 8}),
        (("arms",), {}),
        (("arms",), ["contrastive", "debiased_pos"]),
        (("question",), ["why?"]),
        (("margin",), "small"),
        (("alpha",), "5 %"),
        (("confirm", "seeds"), "eight"),
        (("confirm", "seeds"), 0),
        (("confirm", "seed"), 8),
        (("search", "trials_per_amr"), 6),
        (("search", "trials_per_arm"), 0),
        (("search", "trials_per_arm"), 1.5),
        (("search", "sampler"), "tpee"),
        (("search", "early_stopping"), "ashaa"),
        (("search", "early_stopping"), {"grace_epoch": 3}),
        (("search", "space", "temperature"), {"low": 0.1, "hihg": 1.0}),
        (("search", "space", "temperature"), [0.1, 1.0]),
        (("search", "space", "temperature"), {"choices": 0.1}),
        (("claims",), [{"id": "A", "beter": "a", "than": "b", "metric": "test/x"}]),
        (("claims",), [{"id": "A", "better": "a", "than": "b", "metrics": "test/x"}]),
        (("claims",), [{"id": "A", "better": "a", "metric": "test/x"}]),
        (("claims",), {"id": "A"}),
        (("metrics",), {"val/error": {"better": "smaller"}}),
        (("metrics",), {"val/error": "lower"}),
        (("resources",), {"gpu": 1}),
        (("resources",), {"gpus": "all"}),
        (("profiles",), {"short": 5}),
    ],
    ids=str,
)
def test_a_typo_does_not_fit(place: tuple[str, ...], value):
    study = copy.deepcopy(POS)
    inner = study
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(study, schema())


@pytest.mark.parametrize("missing", ["name", "arms", "confirm"])
def test_what_a_study_needs(missing: str):
    with pytest.raises(jsonschema.ValidationError, match=f"'{missing}' is a required property"):
        jsonschema.validate({k: v for k, v in POS.items() if k != missing}, schema())
