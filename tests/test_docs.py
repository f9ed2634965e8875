"""Is what the documents say true: commands, options, settings, files?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from study.run import _parser
from study.spec.load import load_study

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = sorted(set(re.findall(r"`(python -m [^`]+)`", README)))


def test_the_two_commands_stand_on_the_first_screen():
    first = "\n".join(README.splitlines()[:45])
    main_job = "pip install -e . -c constraints.txt && python -m study.run search_spaces/pos.yaml"
    assert main_job in first
    assert 'pip install -e ".[test]" -c constraints.txt && pytest' in first


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert 'pip install -q -e ".[test]" -c constraints.txt && pytest' in script


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python -m study.run ")])
def test_study_commands_are_accepted(command: str, monkeypatch):
    monkeypatch.chdir(ROOT)
    args = _parser().parse_args(shlex.split(command)[3:])
    overrides = [o for o in args.overrides if not o.endswith("=DIR")]
    study = load_study(args.spec, profile=args.profile, overrides=overrides, data=False)
    assert study.arms


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


@pytest.mark.parametrize(
    "document", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda d: d.name
)
def test_links_lead_somewhere(document: Path):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), target


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


@pytest.mark.parametrize(("name", "profile"), [("pos", None), ("cifar10", "cifar10")])
def test_the_committed_study_is_the_shipped_one(name: str, profile: str | None):
    """Results belong to the file beside them: a changed study needs a new run."""
    file = ROOT / "search_spaces" / "pos.yaml"
    shipped = load_study(file, profile=profile, name=name, data=False).declared()
    committed = yaml.safe_load((ROOT / "results" / name / "study.yaml").read_text())
    differing = {k for k in shipped if shipped[k] != committed.get(k) and k != "resources"}
    assert not differing


@pytest.mark.parametrize("column", [1, 2])
def test_the_results_in_the_overview_are_those_of_the_tables(column: int):
    from analysis.report import analyse

    folder = ROOT / "results" / ("pos", "cifar10")[column - 1]
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
            float(n.replace("\N{MINUS SIGN}", "-")) for n in re.findall(r"[+−][\d.]+", row[column])
        ]
        true = [100 * v for v in (found["mean_difference"], found["ci_low"], found["ci_high"])]
        assert told == pytest.approx(true, abs=0.051), row
