"""A function's parameters are a study's settings; what does not fit is refused with its place."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from study.design.arms import arms_of
from study.errors import SpecError
from study.planning.dry_run import plan_lines
from study.spec.load import load_study
from study.workload import FunctionWorkload, SettingsError, load_workload

TRAIN = """\
from typing import Annotated, Literal

from pydantic import Field


def train(
    run,
    *,
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1,
    width: int = 8,
    kind: Literal["plain", "heavy"] = "plain",
    nesterov: bool = False,
    decay: float | None = None,
    epochs: int = 5,
) -> None:
    for epoch in range(1, epochs + 1):
        run.report(epoch, {"val/error": rate / width / epoch})
"""
STUDY = """\
name: own
workload: my_training:train
metrics:
  val/error: {better: lower, unit: fraction}
  test/error: {better: lower, unit: fraction}
trial: {epochs: 4}
arms:
  plain: {kind: plain}
  heavy: {kind: heavy, width: 16}
search:
  trials_per_arm: 4
  space:
    rate: {low: 0.01, high: 1.0, log: true}
    width: {low: 4, high: 32}
  early_stopping: {grace_epochs: 1, reduction_factor: 3}
confirm: {seeds: 6}
claims:
  - {id: A, better: heavy, than: plain, metric: test/error}
margin: 0.01
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_training.py").write_text(TRAIN)
    (tmp_path / "own.yaml").write_text(STUDY)
    return tmp_path


def refused(folder: Path, text: str) -> str:
    (folder / "own.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_study(folder / "own.yaml")
    return str(caught.value)


def changed(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


def test_settings_come_from_the_signature(folder):
    study = load_study(folder / "own.yaml")
    assert study.search.metric == "val/error"  # the only one that is not of the test split
    assert study.confirm.metrics == ["test/error"]
    arms = arms_of(study)
    assert set(arms["plain"].space) == {"rate", "width"}
    assert set(arms["heavy"].space) == {"rate"}
    assert arms["plain"].space.integral("width")
    assert not arms["plain"].space.integral("rate")
    assert arms["plain"].length("default") == (4, 4)
    complete = arms["heavy"].complete("default", {"rate": 0.5})
    assert complete == {
        "rate": 0.5, "width": 16, "kind": "heavy", "nesterov": False, "decay": None, "epochs": 4,
    }  # fmt: skip


def test_a_function_keeps_nothing_on_request_and_may_have_figures_of_what_it_keeps(folder):
    told = refused(folder, changed("confirm: {seeds: 6}", "confirm: {seeds: 6, keep: [features]}"))
    assert f"{folder / 'own.yaml'}:16: " in told
    assert "`features`, which the workload my_training:train cannot keep" in told
    assert "a function keeps files itself, with run.keep" in told
    (folder / "own.yaml").write_text(STUDY + "figures: [embedding]\n")
    assert load_study(folder / "own.yaml").figures.embedding == []


def test_the_module_is_found_beside_the_study_wherever_the_command_is_run(folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "my_training.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(elsewhere)
    assert load_study("../own.yaml").beside == str(folder)


def test_a_module_of_the_same_name_beside_another_study_is_another_one(folder, tmp_path_factory):
    load_study(folder / "own.yaml")
    other = tmp_path_factory.mktemp("other")
    (other / "my_training.py").write_text(TRAIN.replace("width: int = 8", "width: int = 99"))
    (other / "own.yaml").write_text(STUDY)
    assert load_study(other / "own.yaml").trains.defaults["width"] == 99
    assert load_study(folder / "own.yaml").trains.defaults["width"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["analysis", "study", "contrastive"])
def test_a_users_own_file_shadows_nothing_of_ours(folder, name: str):
    (folder / f"{name}.py").write_text("raise RuntimeError('shadowed')")
    # As a console command is started: the working directory is not on the path.
    code = "import sys; del sys.path[0]; from study.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", "own.yaml", "--dry-run"]
    root = Path(__file__).parents[3]
    found = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "study own" in found.stdout


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("my_training:train", "nowhere:train", [
            "own.yaml:2: `nowhere:train`: there is no module `nowhere`", "allowed: a module there: "
            "my_training",
        ]),
        ("my_training:train", "my_trainin:train", ["try: my_training:train"]),
        ("my_training:train", "my_training:missing", [
            "own.yaml:2: `my_training:missing`:", "has no `missing`", "allowed: ",
        ]),
        ("my_training:train", "my_training:trian", ["try: my_training:train"]),
        ("my_training:train", "my_training", [
            "own.yaml:2: workload is `my_training`", "try: workload: my_training:train",
        ]),
        ("my_training:train", "contrastve", ["try: workload: contrastive"]),
        ("workload: my_training:train", "workload: [1]", ["own.yaml:2: workload is [1]"]),
        ("kind: plain}", "knid: plain}", [
            "own.yaml:8: unknown setting `arms.plain.knid`", "`kind`",
        ]),
        ("kind: plain}", "kind: huge}", ["own.yaml:8: arms.plain.kind is 'huge'", "plain, heavy"]),
        ("width: 16", "width: 1.5", ["own.yaml:9: arms.heavy.width is 1.5", "a whole number"]),
        ("width: 16", "width: wide", ["own.yaml:9: arms.heavy.width is 'wide'", "a whole number"]),
        ("width: 16", "nesterov: 1.5", ["arms.heavy.nesterov is 1.5", "true or false"]),
        ("low: 0.01", "low: 0.0", ["own.yaml:13: search.space.rate.low is 0.0", "above 0"]),
        ("high: 1.0", "high: 2.0", ["search.space.rate.high is 2.0", "at most 1"]),
        ("    width: {low: 4, high: 32}", "    depth: {low: 4, high: 32}", [
            "own.yaml:14: unknown setting `search.space.depth`", "rate, width",
        ]),
        ("    width: {low: 4, high: 32}", "    epochs: {low: 4, high: 32}", [
            "`epochs` cannot be searched",
        ]),
        ("metric: test/error}", "metric: test/eror}", ["own.yaml:18: ", "test/eror"]),
        ("  val/error: {better: lower, unit: fraction}", "  val/error: {unit: fraction}", [
            "own.yaml:4: `metrics.val/error.better` is missing", "higher or lower",
        ]),
        ("better: lower, unit: fraction}\n  test", "better: less}\n  test", [
            "own.yaml:4: metrics.val/error.better is 'less'", "higher, lower",
        ]),
        ("confirm: {seeds: 6}", "confirm: {seeds: 6, metrics: [test/error, test/loss]}", [
            "own.yaml:16: confirm.metrics has `test/loss`, which no run records",
        ]),
        ("  trials_per_arm: 4", "  trials_per_arm: 4\n  metric: test/error", [
            "search.metric has `test/error`, by which no trial can be judged", "val/error",
        ]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(folder, old, new, parts):
    text = refused(folder, changed(old, new))
    for part in parts:
        assert part in text
    assert "Traceback" not in text


def test_all_faults_are_reported_together(folder):
    text = changed("kind: plain}", "knid: plain}").replace("width: 16", "width: wide")
    found = refused(folder, text.replace("low: 0.01", "low: -1.0"))
    places = [line.split(":")[1] for line in found.splitlines() if "own.yaml:" in line]
    assert places == ["8", "9", "13", "13"]  # below its bound, and no logarithm


@pytest.mark.parametrize(
    ("module", "parts"),
    [
        ("import nothing_of_that_name\n" + TRAIN, [
            "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_that_name'",
            "my_training.py:1",
        ]),
        ("def train(run:\n    pass", ["cannot be imported: SyntaxError", "my_training.py:1"]),
        ("x = {}\nprint(x['a'])", ["cannot be imported: KeyError: 'a'", "my_training.py:2"]),
        ("import sys\nsys.exit(1)", ["cannot be imported: SystemExit: 1", "my_training.py:2"]),
        ("def train(*, rate: float = 0.1): ...", ["does not take `run` as its first parameter"]),
        ("def train(config): ...", ["does not take `run`", "def train(run, *"]),
        ("def train(run, /, *rates): ...", ["the parameter *rates cannot be a setting"]),
        ("def train(run, *, model: open = None): ...", ["the type of the parameter model"]),
        ("def train(run, *, rate: Missing = 1): ...", ["annotations cannot be read", "Missing"]),
        ("train = 3", ["workload `my_training:train` is int, not a function"]),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_function_that_cannot_be_used_is_refused_before_anything_begins(folder, module, parts):
    (folder / "my_training.py").write_text("from __future__ import annotations\n" * (
        "Missing" in module) + module)  # fmt: skip
    text = refused(folder, STUDY)
    assert "own.yaml:2: " in text
    for part in parts:
        assert part in text


def test_a_study_of_a_function_declares_its_metrics(folder):
    lines = STUDY.splitlines(keepends=True)
    text = refused(folder, "".join(lines[:2] + lines[5:]))
    assert "my_training:train reports metrics that the study does not declare" in text
    assert "try: metrics: {val/error: {better: lower}" in text


def test_a_setting_without_default_must_be_set(folder):
    (folder / "my_training.py").write_text(TRAIN.replace("width: int = 8", "width: int"))
    (folder / "own.yaml").write_text(STUDY)
    load_study(folder / "own.yaml")  # searched in one arm, set in the other
    assert "width: my_training:train has no default for it, and nothing sets it" in refused(
        folder, changed("    width: {low: 4, high: 32}\n", "").replace(", width: 16", "")
    )


def test_a_function_without_epochs_has_no_early_stopping(folder):
    (folder / "my_training.py").write_text(TRAIN.replace("    epochs: int = 5,\n", "").replace(
        "epochs + 1", "3"))  # fmt: skip
    text = changed("trial: {epochs: 4}", "trial: {}")
    assert "early_stopping needs the setting `epochs`, which my_training:train" in refused(
        folder, text
    )
    rule = "  early_stopping: {grace_epochs: 1, reduction_factor: 3}\n"
    (folder / "own.yaml").write_text(text.replace(rule, ""))
    study = load_study(folder / "own.yaml")
    assert arms_of(study)["plain"].length("default") is None
    assert any("no early stopping" in line for line in plan_lines(study, slots=2))


def test_any_setting_is_taken_by_a_function_with_keywords(folder):
    (folder / "my_training.py").write_text("def train(run, **settings): ...")
    study = load_study(folder / "own.yaml")
    assert study.trains.open
    space = arms_of(study)["plain"].space
    assert space.integral("width")  # by its bounds
    assert not space.integral("rate")
    assert arms_of(study)["heavy"].complete("default", {"rate": 0.1})["width"] == 16


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+x", "-x", "@x"])
def test_a_metric_that_a_spreadsheet_would_run_is_refused(folder, name: str):
    said = refused(
        folder, changed("  test/error: {", f"  {name!r}: {{better: lower}}\n  test/error: {{")
    )
    assert f"own.yaml:5: `{name}` cannot be a metric's name" in said


WAITING = STUDY.replace(
    "rate: {low: 0.01, high: 1.0, log: true}",
    "rate: {low: 0.01, high: 1.0, log: true, when: {kind: heavyy}}",
)


def test_a_text_that_an_option_waits_for_and_no_arm_has_is_a_typo(folder):
    """The type allows any text, so that only the arms tell."""
    (folder / "my_training.py").write_text(TRAIN.replace('Literal["plain", "heavy"]', "str"))
    said = refused(folder, WAITING)
    assert "own.yaml:" in said
    assert "`when` of rate waits for kind: heavyy, which it never is" in said
    assert "try: when: {kind: heavy}" in said


def test_a_text_of_an_arm_that_was_taken_out_is_none(folder):
    (folder / "my_training.py").write_text(TRAIN.replace('Literal["plain", "heavy"]', "str"))
    third = "  heavier: {kind: heavyy}\n  heavy: {kind"
    (folder / "own.yaml").write_text(WAITING.replace("  heavy: {kind", third))
    study = load_study(folder / "own.yaml", overrides=["arms.heavier=null"])
    assert set(study.arms) == {"plain", "heavy"}
    recorded = folder / "study.yaml"
    record = {"id": "x", "hash": "y", "beside": str(folder)} | study.declared()
    recorded.write_text(yaml.safe_dump(record))
    assert load_study(recorded).arms == study.arms


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan", "[1, .inf]"])
def test_a_number_that_the_record_could_not_hold_is_refused(folder, value: str):
    """JSON has no sign for it, so that the study would train with something else than it says."""
    (folder / "my_training.py").write_text("def train(run, **settings): ...")
    said = f"trial.width is {yaml.safe_load(value)!s}\n  allowed: finite numbers"
    with pytest.raises(SpecError, match=re.escape(said)):
        load_study(folder / "own.yaml", overrides=[f"trial.width={value}"])


@pytest.mark.parametrize(
    ("hint", "given", "kept"),
    [
        ("int", 3, 3),
        ("float", 3, 3.0),
        ("float | None", None, None),
        ("list[int]", [1, 2], [1, 2]),
        ("tuple[int, ...]", [1, 2], [1, 2]),
        ("Path", "a/b", "a/b"),
        ("Literal['a', 'b']", "a", "a"),
        ("dict[str, float]", {"a": 1}, {"a": 1.0}),
    ],
)
def test_settings_are_json_outside_and_typed_inside(hint: str, given, kept):
    space: dict = {}
    code = f"""
    from pathlib import Path
    from typing import Literal
    seen = []
    def train(run, *, value: {hint}):
        seen.append(value)
    """
    exec(textwrap.dedent(code), space)
    workload = FunctionWorkload(space["train"], "train")
    complete = workload.complete({"value": given})
    assert complete == {"value": kept}
    workload.train(None, complete)
    expected = {"tuple[int, ...]": tuple, "Path": Path}.get(hint, type(kept))
    assert isinstance(space["seen"][0], expected)


def test_a_text_is_no_number_and_true_is_not_one():
    def train(run, *, rate: float = 0.1, width: int = 2):
        """Nothing."""

    workload = FunctionWorkload(train, "train")
    for settings in ({"rate": "0.1"}, {"width": True}, {"width": 2.5}, {"rate": float("nan")}):
        with pytest.raises(SettingsError):
            workload.complete(settings)


def test_an_installed_workload_is_found_by_name(folder, monkeypatch):
    from importlib import metadata

    point = metadata.EntryPoint("mine", "my_training:train", "contrastive_study.workloads")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    monkeypatch.syspath_prepend(folder)
    assert isinstance(load_workload("mine"), FunctionWorkload)
    with pytest.raises(SettingsError, match="workload is `mien`") as caught:
        load_workload("mien")
    assert "mine" in caught.value.allowed
