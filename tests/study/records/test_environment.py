"""Is what moves a training's numbers recorded, and does no study continue elsewhere in silence?"""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path

import pytest
import yaml
from in_process import TRAINING, without_ray, write_study

import study
from analysis import analyse
from study.errors import StudyError
from study.records import environment_here, nearest_differences

HERE = environment_here(threads=1, gpus=False)


def test_it_names_processor_threads_device_and_versions():
    import numpy
    import torch

    assert HERE["threads"] == "1"
    assert HERE["device"] == "CPU"
    assert HERE["torch"] == torch.__version__.partition("+")[0]
    assert HERE["numpy"] == numpy.__version__
    assert platform.python_version().startswith(HERE["python"])
    assert HERE["processor"]
    assert HERE["instructions"]


def test_a_variable_that_chooses_other_kernels_is_part_of_it(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    changed = environment_here(threads=1, gpus=False)
    assert nearest_differences([HERE], changed) == [
        "ATEN_CPU_CAPABILITY: was not set, is now default"
    ]


def test_the_most_similar_earlier_environment_is_compared():
    two, three = HERE | {"threads": "2"}, HERE | {"threads": "3", "torch": "1.0"}
    assert nearest_differences([three, HERE], two) == ["threads: was 1, is now 2"]
    assert nearest_differences([three, HERE], HERE) == []
    assert nearest_differences([], HERE) == []


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> Path:
    """Where a study of six seeds has run, two fewer than `grown` asks for."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        without_ray(patch)
        write_study(home)
        study.run_study("own.yaml", overrides=["confirm.seeds=6"], quiet=True)
    return home


@pytest.fixture
def begun(first, tmp_path, monkeypatch) -> Path:
    """The folder of that study, in a copy."""
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    # The folder beside the study is another one, the code in it is the same.
    return tmp_path / "studies" / "own"


def grown(**options):
    overrides = ["confirm.seeds=8", *options.pop("also", [])]
    return study.run_study("own.yaml", overrides=overrides, resume=True, quiet=True, **options)


def contents(folder: Path) -> dict[Path, bytes]:
    return {f: f.read_bytes() for f in folder.rglob("*") if f.is_file() and f.name != "lock"}


def other_threads(monkeypatch) -> list[str]:
    return ["resources.cpus=2"]


def other_kernels(monkeypatch) -> list[str]:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    return []


def other_code(monkeypatch) -> list[str]:
    Path("my_training.py").write_text(TRAINING.replace("0.01 * rate", "0.02 * rate"))
    os.utime("my_training.py", ns=(1, 1))  # another time for certain
    return []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_threads, "threads: was 1, is now 2"),
        (other_kernels, "ATEN_CPU_CAPABILITY: was not set, is now default"),
        (other_code, "own code: was "),
    ],
)
def test_a_study_does_not_continue_elsewhere_unless_that_is_accepted(
    begun, monkeypatch, change, told
):
    also = change(monkeypatch)
    before = contents(begun)
    with pytest.raises(StudyError) as refused:
        grown(also=also)
    assert told in str(refused.value)
    assert "--other-environment" in str(refused.value)
    assert contents(begun) == before

    result = grown(also=also, other_environment=True)
    after = contents(begun)
    endings = {file for file in before if "runs" in file.parts and file.suffix == ".json"}
    assert all(after[file] == before[file] for file in endings)  # nothing is overwritten
    assert len(yaml.safe_load((begun / "study.yaml").read_text())["environments"]) == 2
    ran = [json.loads(text) for text in result.runs.query("phase == 'confirm'").environment]
    assert len({json.dumps(environment, sort_keys=True) for environment in ran}) == 2
    report = json.loads((begun / "report" / "report.json").read_text())
    (warning,) = [w for w in report["warnings"] if "different environments" in w]
    assert told.partition(":")[0] in warning
    page = (begun / "report" / "report.html").read_text()
    assert "Runs come from different environments" in page
    # Each unit's two arms ran side by side, before or after the change.
    assert [c["mixed_units"] for c in report["comparisons"]] == [0]
    assert "different environments" not in report["claims"][0]["sentence"]


@pytest.mark.slow
def test_the_same_environment_goes_on_and_is_listed_once(begun):
    grown()
    assert len(yaml.safe_load((begun / "study.yaml").read_text())["environments"]) == 1
    report = json.loads((begun / "report" / "report.json").read_text())
    assert not [w for w in report["warnings"] if "environment" in w]
    (row,) = report["environments"]
    assert row["environment"]["threads"] == "1"


def test_units_that_compare_runs_of_two_environments_are_counted_and_told(begun):
    """As of a cluster whose nodes differ: here the second arm's runs of two seeds."""
    import pandas as pd

    runs = pd.read_csv(begun / "runs.csv")
    moved = (runs.phase == "confirm") & (runs.arm == "wide") & (runs.seed <= 2)
    elsewhere = json.dumps(HERE | {"processor": "another"})
    runs.loc[moved, "environment"] = elsewhere
    report = analyse(
        begun / "results.csv", plan=begun / "study.yaml", runs=runs, provenance={"looks": []}
    )
    (record,) = report["comparisons"]
    assert record["mixed_units"] == 2
    sentence = report["claims"][0]["sentence"]
    assert "In 2 of 6 seeds the two arms ran in different environments." in sentence


def test_a_design_whose_environment_no_session_knows_is_a_break(begun):
    from study.reporting.looks import breaks
    from study.storage import Folder

    file = begun / "study.yaml"
    data = yaml.safe_load(file.read_text())
    data["environments"][0]["threads"] = "2"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    told = "study.yaml: has an environment in which no session of the log ran"
    assert told in breaks(Folder(begun))


@pytest.mark.slow
def test_a_study_of_an_earlier_version_takes_the_environment_of_its_next_session(begun):
    file = begun / "study.yaml"
    data = yaml.safe_load(file.read_text())
    del data["environments"]
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    grown()
    assert yaml.safe_load(file.read_text())["environments"][0]["threads"] == "1"
