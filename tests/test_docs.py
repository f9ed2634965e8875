"""Is what the documents say true: commands, options, settings, files?"""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import typer
import yaml

import study
from analysis.inputs import read_plan
from study import report, run
from study.cli import app
from study.commands import as_command, new_app
from study.design import Study
from study.spec.load import load_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = sorted(set(re.findall(r"`(python -m [^`]+)`", README)))
DOCUMENTS = [
    ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))
]  # fmt: skip
WORKLOADS = (ROOT / "docs" / "workloads.md").read_text()


def test_the_two_commands_stand_on_the_first_screen():
    first = "\n".join(README.splitlines()[:45])
    main_job = "pip install -e . -c constraints.txt && python -m study.run search_spaces/pos.yaml"
    assert main_job in first
    assert 'pip install -e ".[test]" -c constraints.txt && pytest' in first


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert 'pip install -q -e ".[test]" -c constraints.txt && pytest' in script


def options_of(function, words: list[str]) -> dict:
    """How a command reads its arguments; a wrong option is an error."""
    alone = new_app(add_completion=False)
    alone.command()(as_command(function))
    return typer.main.get_command(alone).make_context("command", words).params


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python -m study.run ")])
def test_study_commands_are_accepted(command: str, monkeypatch):
    monkeypatch.chdir(ROOT)
    given = options_of(run.run, shlex.split(command)[3:])
    overrides = [o for o in given["overrides"] or () if not o.endswith("=DIR")]
    found = load_study(given["spec"], profile=given["profile"], overrides=overrides, data=False)
    assert found.arms


def test_report_commands_are_accepted():
    written = [
        c for d in DOCUMENTS for c in re.findall(r"`(python -m study.report [^`]+)`", text(d))
    ]
    assert len(written) >= 3
    for command in written:
        assert options_of(report.report, shlex.split(command)[3:])["name"]


def text(document: Path) -> str:
    return document.read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_console_commands_are_accepted(document: Path):
    lines = re.findall(r"(?:`|^\$ )(contrastive-study [^`\n]+)", text(document), re.M)
    group = typer.main.get_command(app)
    for line in lines:
        words = shlex.split(line.replace("NAME", "name"))[1:]
        if words[0].startswith("--"):
            assert any(words[0] in option.opts for option in group.params), line
        else:
            group.commands[words[0]].make_context(words[0], words[1:])


def test_the_training_command_runs(capsys):
    from contrastive.train import main

    command = next(c for c in COMMANDS if c.startswith("python -m contrastive.train"))
    assert main([*shlex.split(command)[3:], "--train-limit", "64"]) == 0
    assert "test/linear_top1" in capsys.readouterr().out


def test_every_module_that_is_named_exists():
    for command in COMMANDS:
        module = shlex.split(command)[2]
        assert (ROOT / (module.replace(".", "/") + ".py")).exists(), command


def test_the_example_study_is_a_good_study(tmp_path):
    block = next(b for b in re.findall(r"```yaml\n(.*?)```", README, re.S) if "name: mine" in b)
    file = tmp_path / "mine.yaml"
    file.write_text(block)
    assert load_study(file).name == "mine"


def blocks(language: str) -> list[str]:
    """Code of docs/workloads.md that is meant to run."""
    return re.findall(rf"^```{language}\n(.*?)^```", WORKLOADS, re.S | re.M)


@pytest.fixture
def beside(tmp_path, monkeypatch) -> Path:
    """A folder with the files that docs/workloads.md names in a comment on their first lines."""
    monkeypatch.chdir(tmp_path)
    for block in (*blocks("python"), *blocks("yaml")):
        if named := re.match(r"# (\w+\.\w+)\n", block):
            (tmp_path / named[1]).write_text(block)
    return tmp_path


def test_the_function_and_the_study_file_of_the_workloads_page_belong_together(beside):
    found = load_study(beside / "my_study.yaml")
    once = study.run_once(found.workload, found.arms["heavy"], seed=1, read_test=True)
    assert set(once.metrics) == {"seconds", *found.metrics}
    assert len(once.curve) == 5


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, about a machine without a GPU
def test_the_own_parts_of_the_workloads_page_train(beside):
    (file,) = [block for block in blocks("yaml") if "name: parts" in block]
    (beside / "parts.yaml").write_text(file)
    found = load_study(beside / "parts.yaml")  # which tries each part on a tiny batch
    from contrastive.train import main

    options = ["--dataset", "my_parts:digits", "--encoder", "my_parts:linear", "--epochs", "1"]
    options += ["--loss", found.arms["attraction"]["loss"], "--train-limit", "64"]
    options += ["--evaluations", "my_parts:spread"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(beside))
        assert main(options) == 0


def test_the_checkpoint_of_the_workloads_page_continues(beside):
    (block,) = [block for block in blocks("python") if "state.pt" in block]
    names: dict = {}
    exec(block, names)
    whole = study.run_once(names["train"], {"epochs": 4}, seed=2)
    study.run_once(names["train"], {"epochs": 2}, seed=2, folder=beside / "kept")
    rest = study.run_once(names["train"], {"epochs": 4}, seed=2, folder=beside / "kept")
    assert list(rest.curve.index) == [3, 4]
    assert rest.curve["val/error"].equals(whole.curve["val/error"][2:])


def test_the_debugging_example_of_the_workloads_page_runs(capsys):
    (block,) = [block for block in blocks("python") if "once = " in block]
    exec(block, {})
    assert capsys.readouterr().out.startswith("0.125 ")


def test_the_function_in_the_readme_is_a_workload():
    (block,) = re.findall(r"^```python\n(.*?)^```", README, re.S | re.M)
    names: dict = {}
    exec(textwrap.dedent(block), names)
    assert set(study.workload.FunctionWorkload(names["train"], "train").hints) == {
        "learning_rate", "epochs"
    }  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", text(document)):
        if target.startswith(("http://", "https://")):
            continue
        linked = document.parent / target if target else document
        assert linked.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", text(linked), re.M)
            slugs = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in slugs, f"{target}#{anchor}"


def test_files_and_names_that_the_extending_page_names_exist():
    page = (ROOT / "docs" / "extending.md").read_text()
    paths = re.findall(r"`((?:study|analysis|contrastive|tests)/[\w/.]+)`", page)
    assert len(paths) > 25
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = re.findall(r"`(\w+)`(?: \w+)? of `([\w/]+\.py)`", page)
    assert len(named) >= 8
    for name, path in named:
        place = ROOT / path if (ROOT / path).exists() else ROOT / "contrastive" / path
        assert name in place.read_text(), f"{name} in {path}"


def test_tests_that_the_reliability_page_names_exist():
    page = (ROOT / "docs" / "reliability.md").read_text()
    tests = "".join(text(file) for file in ROOT.glob("tests/**/test_*.py"))
    for name in re.findall(r"::(test_\w+)", page):
        assert f"def {name}(" in tests, name


def test_the_tree_in_the_readme_is_the_tree():
    for folder in re.findall(r"^(\w+)/  ", README, re.M):
        assert (ROOT / folder).is_dir()


def test_constraints_pin_every_dependency_within_its_range():
    from packaging.requirements import Requirement

    text = (ROOT / "pyproject.toml").read_text()
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if "==" in line and not line.startswith("#"):
            name, version = line.split("==")
            pinned[name.lower().replace("_", "-")] = version
    listed = re.findall(r'^    "([^"]+)",$', text, re.M)
    requirements = [Requirement(r) for r in listed if re.match(r"[a-z0-9\[\]-]+>=", r, re.I)]
    assert len(requirements) >= 20
    for requirement in requirements:
        version = pinned[requirement.name.lower()]
        assert requirement.specifier.contains(version), requirement


def test_shipped_studies_hold_no_machine_paths():
    for file in (ROOT / "search_spaces").rglob("*.yaml"):
        assert "dataset_path" not in yaml.safe_load(file.read_text()).get("trial", {})


def test_the_verdicts_in_the_readme_are_those_of_the_committed_results():
    from analysis.report import analyse
    from analysis.wording import one_line_verdicts

    folder = ROOT / "results" / "pos"
    report = analyse(folder / "results.csv", plan=folder / "study.yaml", runs=folder / "runs.csv")
    quoted = re.findall(r"^(F\w+: .*) …$", README, re.M)
    sentences = one_line_verdicts(report)
    assert len(quoted) == len(sentences)
    for quote, sentence in zip(quoted, sentences, strict=True):
        assert sentence.startswith(quote)


@pytest.mark.parametrize(
    ("name", "profile", "seed"),
    [("pos", None, 0), ("pos-1001", None, 1001), ("pos-1002", None, 1002), ("cifar10",) * 2 + (0,)],
)
def test_the_committed_study_is_the_shipped_one(name: str, profile: str | None, seed: int):
    """Results belong to the file beside them: a changed study needs a new run."""
    file = ROOT / "search_spaces" / "pos.yaml"
    shipped = load_study(
        file, profile=profile, name=name, data=False, overrides=[f"search.seed={seed}"]
    )
    record = yaml.safe_load((ROOT / "results" / name / "study.yaml").read_text())
    # Read as a study, so that what an earlier version did not write has its default.
    committed = Study.model_validate({k: v for k, v in record.items() if k in Study.model_fields})
    assert shipped.about == read_plan(record).scope
    free = {"resources", "metrics", "question", "scope", "published", "figures"}
    old, new = committed.declared(), shipped.declared()
    for declared in (old, new):
        declared["confirm"].pop("keep", None)  # changes no run
    assert {k for k in new if new[k] != old.get(k) and k not in free} == set()


@pytest.mark.slow
@pytest.mark.parametrize("column", [1, 2, 3, 4])
def test_the_results_in_the_overview_are_those_of_the_tables(column: int):
    from analysis.report import analyse

    folder = ROOT / "results" / ("pos", "pos-1001", "pos-1002", "cifar10")[column - 1]
    report = analyse(folder / "results.csv", plan=folder / "study.yaml", runs=folder / "runs.csv")
    overview = (ROOT / "results" / "README.md").read_text()
    rows = [row.strip("| ").split(" | ") for row in re.findall(r"^\| F.*$", overview, re.M)]
    comparisons = {c["claim"]: c for c in report["comparisons"] if c.get("claim")}
    assert len(rows) == len(report["claims"])
    for row in rows:
        claim = row[0].partition(":")[0]
        verdict = next(c["verdict"] for c in report["claims"] if c["id"] == claim)
        assert row[column].startswith(verdict), row
        found = comparisons[claim]
        told = [
            float(n.replace("\N{MINUS SIGN}", "-"))
            for n in re.findall(r"[+−]?\d+\.\d+", row[column])
        ]
        true = [100 * v for v in (found["mean_difference"], found["ci_low"], found["ci_high"])]
        assert told == pytest.approx(true, abs=0.051), row
