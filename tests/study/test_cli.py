"""Does the console command do what its help says, with the exit codes that the README names?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import STUDY, without_ray, write_study

from study.cli import main
from study.spec.load import load_study

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A folder in which the study `own` has run by `contrastive-study run`."""
    home = tmp_path_factory.mktemp("home")
    write_study(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        without_ray(patch)
        assert main(["run", "own.yaml"]) == 0
    return home


@pytest.fixture
def here(finished, tmp_path, monkeypatch) -> Path:
    """A copy of that folder, as the working directory."""
    home = tmp_path / "home"
    shutil.copytree(finished, home)
    monkeypatch.chdir(home)
    return home


class TestListAndShow:
    @pytest.mark.slow
    def test_a_finished_study_with_its_verdict(self, here, capsys):
        assert main(["list"]) == 0
        titles, row = capsys.readouterr().out.splitlines()
        assert titles.split() == ["study", "state", "verdicts", "disk", "last", "command"]
        assert row.startswith("own")
        assert "finished, with a report" in row
        assert "W1 supported" in row
        assert "…" not in row  # nothing is cut off at 80 columns

    def test_one_study_with_the_command_that_continues_it(self, here, capsys):
        assert main(["show", "own"]) == 0
        out = capsys.readouterr().out
        for text in (
            "study:     own: Is <wide> better?",
            "state:     finished, with a report",
            "runs:      20 finished",
            "continue:  python -m study.run own.yaml --resume",
            "W1: Supported: wide is ",
            "report:    studies/own/report/report.html",
        ):
            assert text in out

    def test_a_study_kept_elsewhere(self, here, capsys):
        Path("studies").rename("elsewhere")
        assert main(["list", "--storage", "elsewhere"]) == 0
        assert "own" in capsys.readouterr().out
        assert main(["show", "own", "--storage", "elsewhere"]) == 0

    def test_no_studies(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["list"]) == 0
        assert capsys.readouterr().out == (
            "no studies in studies; contrastive-study new FILE writes a study file\n"
        )

    def test_a_study_that_is_not_there(self, here, capsys):
        assert main(["show", "won"]) == 2
        err = capsys.readouterr().err
        assert "there is no study" in err
        assert "allowed: the name of a study there: own" in err

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\x00\xfe", b"[1, 2", b"name: own", b"id: a\nhash: b\nname: [/bold]\n"],
    )
    def test_a_damaged_study_is_listed_with_its_damage(self, here, capsys, content: bytes):
        (here / "studies" / "own" / "study.yaml").write_bytes(content)
        shutil.copytree(here / "studies" / "own", here / "studies" / "again")
        assert main(["list"]) == 0
        assert "is damaged" in " ".join(capsys.readouterr().out.split())
        assert main(["show", "own"]) == 0
        assert "is damaged" in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["report/report.json", "sessions.jsonl", "runs/x.json"])
    def test_other_damaged_files_are_passed_over(self, here, capsys, name: str):
        file = here / "studies" / "own" / name
        file.write_bytes(b'{"claims": [')
        assert main(["list"]) == 0
        assert main(["show", "own"]) == 0
        assert "own" in capsys.readouterr().out


class TestNew:
    def test_a_study_of_the_built_in_workload(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["new", "mine.yaml"]) == 0
        assert "contrastive-study run mine.yaml --dry-run" in capsys.readouterr().out
        assert load_study("mine.yaml").name == "mine"

    def test_a_study_of_a_function(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write_study(tmp_path)
        assert main(["new", "mine.yaml", "--function", "my_training:train"]) == 0
        study = load_study("mine.yaml")
        assert study.workload == "my_training:train"
        assert set(study.search.space) == {"width"}

    def test_nothing_is_overwritten(self, tmp_path, capsys):
        file = write_study(tmp_path)
        assert main(["new", str(file)]) == 2
        assert "exists; nothing was written" in capsys.readouterr().err
        assert file.read_text() == STUDY

    def test_a_function_that_is_not_there(self, tmp_path, capsys):
        write_study(tmp_path)
        file = tmp_path / "mine.yaml"
        assert main(["new", str(file), "--function", "my_trainin:train"]) == 2
        assert "allowed: a module there: my_training" in capsys.readouterr().err
        assert not file.exists()

    def test_a_folder_that_is_not_there(self, tmp_path, capsys):
        assert main(["new", str(tmp_path / "nowhere" / "mine.yaml")]) == 2
        assert "No such file or directory" in capsys.readouterr().err


class TestUi:
    @pytest.fixture
    def started(self, tmp_path, monkeypatch) -> list:
        calls: list = []

        def start(command, *, env, check):
            calls.append((command, env))
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        monkeypatch.setattr("study.cli.subprocess.run", start)
        return calls

    def test_mlflow_is_started_on_this_machine_only_with_this_folders_store(
        self, started, tmp_path, capsys
    ):
        (tmp_path / "mlflow.db").touch()
        assert main(["ui", "--port", "5005"]) == 0
        ((command, environment),) = started
        assert command[1:4] == ["-m", "mlflow", "ui"]
        options = dict(zip(command[4::2], command[5::2], strict=True))
        assert options == {
            "--backend-store-uri": f"sqlite:///{tmp_path / 'mlflow.db'}",
            "--workers": "1", "--host": "127.0.0.1", "--port": "5005",
        }  # fmt: skip
        assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
        assert "http://127.0.0.1:5005" in capsys.readouterr().out

    def test_a_folder_in_which_no_study_has_run(self, started, capsys):
        assert main(["ui"]) == 2
        assert "no study has run here" in capsys.readouterr().err
        assert started == []

    def test_a_tracking_server_is_named_without_its_password(self, started, monkeypatch, capsys):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@runs.example.org/a")
        assert main(["ui"]) == 0
        out = capsys.readouterr().out
        assert "https://runs.example.org/a" in out
        assert "secret" not in out
        assert started == []


def report_as(monkeypatch, verdict: str) -> None:
    """Have a report at once: drawing its figures takes seconds."""
    answer = {"claims": [{"id": "W1", "verdict": verdict, "sentence": "Wide."}]}
    monkeypatch.setattr("study.report.report_on", lambda folder, out: answer)


class TestExitCodes:
    def test_a_study_that_exists(self, here, capsys):
        assert main(["run", "own.yaml"]) == 2
        assert "already exists" in capsys.readouterr().err

    @pytest.mark.slow
    def test_a_failed_training(self, tmp_path, monkeypatch, capsys):
        file = write_study(tmp_path)
        monkeypatch.chdir(tmp_path)
        without_ray(monkeypatch)
        training = tmp_path / "my_training.py"
        training.write_text(training.read_text() + "    1 / (width - 8 or run.seed - 2)\n")
        assert main(["run", str(file), "--set", "search=null"]) == 1
        err = capsys.readouterr().err
        assert "1 training failed, the first, confirm/wide/default/0002, with: ZeroDiv" in err

    def test_a_required_verdict(self, here, capsys, monkeypatch):
        report_as(monkeypatch, "supported")
        assert main(["report", "own", "--require", "W1=supported"]) == 0
        assert capsys.readouterr().err == ""
        assert main(["report", "own", "--require", "W1=refuted"]) == 3
        assert "required: W1 refuted; the report says: supported" in capsys.readouterr().err

    @pytest.mark.parametrize("text", ["W2=supported", "W1=suported", "W1", "=", ""])
    def test_a_required_claim_or_verdict_that_does_not_exist(
        self, here, capsys, monkeypatch, text: str
    ):
        report_as(monkeypatch, "supported")
        assert main(["report", "own", "--require", text]) == 2
        assert "try: --require W1=" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments", [[], ["rnu"], ["list", "--stroage", "x"], ["ui", "--port", "many"], ["run"]]
    )
    def test_a_command_line_that_cannot_be_used(self, arguments: list[str]):
        assert main(arguments) == 2

    @pytest.mark.parametrize("arguments", [["--help"], ["run", "-h"], ["analyse", "-h"]])
    def test_help(self, arguments: list[str], capsys):
        assert main(arguments) == 0
        assert "usage" in capsys.readouterr().out.lower()


class TestPassedOn:
    @pytest.mark.slow
    def test_a_table_of_results_with_options_of_the_analysis(self, here, capsys):
        results = Path("table.csv")
        own = Path("studies/own/results.csv").read_text()
        results.write_text(own.replace("/error", "/oddity"))
        assert main(["analyse", str(results), "--out", "found"]) == 2
        assert "try: --better test/oddity=higher (or =lower)" in capsys.readouterr().err
        assert main(["analyse", str(results), "--better", "lower", "--out", "found"]) == 0
        assert (here / "found" / "report.html").exists()
        assert main(["analyse", "nowhere.csv"]) == 2

    @pytest.mark.slow
    def test_one_training_of_the_built_in_workload(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        small = ["--dataset", "digits", "--epochs", "1", "--train-limit", "64"]
        assert main(["train", "--loss", "debiased_pos", *small]) == 0
        assert "test/linear_top1" in capsys.readouterr().out
        assert main(["train", "--loss", "debiased_poss"]) == 2


@pytest.mark.slow
def test_a_users_own_file_shadows_nothing(tmp_path):
    """A console script has its own folder on the path, and not the working directory."""
    for name in ("analysis", "study", "contrastive", "typer", "rich"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadowed')")
    script = tmp_path / "bin" / "contrastive-study"
    script.parent.mkdir()
    script.write_text("import sys\nfrom study.cli import main\nsys.exit(main())\n")
    found = subprocess.run(
        [sys.executable, str(script), "list"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "no studies" in found.stdout
