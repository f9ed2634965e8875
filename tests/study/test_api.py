"""Does the Python interface do what the commands do, in scripts, threads and notebooks?"""

from __future__ import annotations

import io
import signal
import threading
import types
from pathlib import Path

import pandas as pd
import pytest
import yaml
from in_process import STUDY, without_ray, write_study
from rich.console import Console

import study
from study import session
from study.api import StudyResult


def train(run, *, rate: float = 0.5, width: int = 4, epochs: int = 3) -> None:
    for epoch in range(1, epochs + 1):
        run.report(epoch, {"val/error": rate**epoch * width})
    if run.read_test:
        (run.folder / "kept.txt").write_text("weights")
        run.keep(run.folder / "kept.txt")


class TestRunOnce:
    def test_a_function(self):
        found = study.run_once(train, {"width": 8}, seed=3)
        assert found.outcome == "finished"
        assert found.metrics["val/error"] == 1.0
        assert found.curve["val/error"].tolist() == [4.0, 2.0, 1.0]
        assert list(found.curve.index) == [1, 2, 3]
        assert "<table" in found._repr_html_()

    def test_a_function_by_its_name_in_the_working_directory(self, tmp_path, monkeypatch):
        write_study(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert study.run_once("my_training:train", {"epochs": 1}, seed=1).outcome == "finished"

    @pytest.mark.slow
    def test_the_built_in_workload(self):
        settings = {"dataset": "digits", "epochs": 1, "train_limit": 64}
        found = study.run_once("contrastive", settings, read_test=True)
        assert list(found.curve.index) == [0, 1]
        assert 0 <= found.metrics["test/knn_top1"] <= 1

    def test_the_run_is_as_in_a_study(self):
        seen = {}

        def look(run) -> None:
            seen.update(vars(run), device=run.device)
            run.report(1, {"a": 1})

        study.run_once(look, seed=7, read_test=True, device="cuda", threads=2)
        assert (seen["seed"], seen["read_test"], seen["phase"]) == (7, True, "confirm")
        assert (seen["device"], seen["threads"]) == ("cuda", 2)

    def test_a_folder_for_checkpoints_and_kept_files(self, tmp_path):
        study.run_once(train, read_test=True, folder=tmp_path)
        assert (tmp_path / "kept" / "kept.txt").read_text() == "weights"

    def test_what_the_function_raises_is_raised_here(self):
        def broken(run) -> None:
            raise KeyError("of the function")

        with pytest.raises(KeyError, match="of the function"):
            study.run_once(broken)

    def test_a_divergence_is_a_result(self):
        found = study.run_once(lambda run: run.report(1, {"loss": float("nan")}))
        assert found.outcome == "diverged"
        assert "loss is nan in epoch 1" in found.reason
        assert len(found.curve) == 0
        assert found._repr_html_().startswith("<p>diverged: loss is nan in epoch 1")

    def test_a_function_that_reports_nothing(self):
        found = study.run_once(lambda run: None)
        assert found.metrics == {}
        assert len(found.curve) == 0

    @pytest.mark.parametrize(
        ("function", "settings", "said"),
        [
            (train, {"widht": 8}, "widht: train takes no such setting.*try: `width`"),
            (train, {"width": "wide"}, "width is 'wide'\n  allowed: a whole number"),
            (train, {"width": True}, "width is True\n  allowed: a whole number"),
            (lambda model: None, {}, "does not take `run`"),
            ("nowhere:train", {}, "there is no module `nowhere`"),
            ("contrastve", {}, "try: workload: contrastive"),
            ("contrastive", {"loss": "contrastve"}, "contrastive"),
        ],
    )
    def test_settings_that_do_not_suit(self, function, settings: dict, said: str):
        with pytest.raises(study.StudyError, match=f"(?s){said}"):
            study.run_once(function, settings)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    # Pages of figures take longer than the trainings here.
    monkeypatch.setattr("study.session.close_study", lambda *_, **__: 0)
    monkeypatch.setattr("study.api._result", lambda found, folder, failed: (found, folder))
    return tmp_path


def results(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "results.csv")


@pytest.mark.slow
def test_a_study_from_a_file_a_mapping_and_a_study_is_the_same(home):
    file = write_study(home)
    tables = [
        results(study.run_study(spec, name=name, quiet=True)[1])
        for spec, name in ((file, "a"), (str(file), "b"), (yaml.safe_load(STUDY), "c"))
    ]
    loaded = study.load_study(file, name="d")
    tables.append(results(study.run_study(loaded, quiet=True)[1]))
    assert len(tables[0]) == 2 * 8 * 4
    assert all(table.equals(tables[0]) for table in tables)


def test_profile_overrides_name_and_storage(home):
    file = write_study(home, STUDY + "profiles: {short: {confirm: {seeds: 3}}}\n")
    found, folder = study.run_study(
        file, profile="short", overrides=["trial.epochs=2"], name="n", storage="kept", quiet=True
    )
    assert folder == home / "kept" / "n"
    assert found.confirm.seed_list == [1, 2, 3]
    assert results(folder)["epoch"].max() == 2


def test_what_a_study_can_decide_and_costs_is_printed_before_it_spends_anything(home, capsys):
    file = write_study(home)
    study.run_study(file, overrides=["confirm.seeds=4"])
    first, remedy, *lines = capsys.readouterr().out.splitlines()
    assert first == "WARNING: one claim needs at least 6 seeds; with 4 none can be decided"
    assert remedy == "  try: --set confirm.seeds=6: 16 trainings instead of 12"
    assert lines[0].startswith("claims: 1, about the configuration")
    assert "W1: can show" in lines[1]
    assert lines[2:4] == [
        "cost: 4 trials and 8 confirmation runs",
        "time: shown with the progress once trainings have ended; --dry-run estimates it before",
    ]
    study.run_study(file, overrides=["confirm.seeds=4"], resume=True)
    assert "cost:" not in capsys.readouterr().out


def test_a_design_that_cannot_decide_is_red_on_a_terminal(home):
    screen = io.StringIO()
    found = study.load_study(write_study(home), overrides=["confirm.seeds=4"])
    session.carry_out(session.Request(found), Console(file=screen, force_terminal=True))
    assert "\x1b[1;31mWARNING: one claim needs" in screen.getvalue()


@pytest.mark.slow
def test_a_study_that_exists_is_refused_unless_it_is_resumed(home):
    file = write_study(home)
    _, folder = study.run_study(file, quiet=True)
    before = results(folder)
    with pytest.raises(study.StudyError, match="already exists"):
        study.run_study(file, quiet=True)
    study.run_study(file, resume=True, quiet=True)
    assert results(folder).equals(before)


@pytest.mark.slow
def test_quiet_prints_nothing(home, capsys):
    file = write_study(home)
    study.run_study(file, quiet=True)
    assert capsys.readouterr() == ("", "")
    study.run_study(file, name="loud")
    assert "confirmation" in capsys.readouterr().out


@pytest.mark.slow
def test_a_study_runs_in_a_thread_and_leaves_signal_handlers_alone(home):
    file = write_study(home)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    found: list = []
    thread = threading.Thread(target=lambda: found.append(study.run_study(file, quiet=True)))
    thread.start()
    thread.join(60)
    assert found[0][1] == home / "studies" / "own"
    study.run_study(file, name="main", quiet=True)
    assert handlers == {number: signal.getsignal(number) for number in handlers}


@pytest.mark.slow
def test_a_second_study_in_the_process_is_refused_while_one_runs(home, monkeypatch):
    file = write_study(home)
    refused: list[str] = []

    def another(*_: object, **__: object) -> int:
        with pytest.raises(study.StudyError) as caught:
            study.run_study(file, name="second", quiet=True)
        refused.append(str(caught.value))
        return 0

    monkeypatch.setattr("study.session.close_study", another)
    study.run_study(file, quiet=True)
    assert "a study is running in this process" in refused[0]
    assert not (home / "studies" / "second").exists()
    monkeypatch.setattr("study.session.close_study", lambda *_, **__: 0)
    study.run_study(file, name="third", quiet=True)  # and afterwards it is allowed again


def test_after_a_failure_another_study_may_run(home, monkeypatch):
    file = write_study(home)
    with pytest.raises(study.StudyError):
        study.run_study(yaml.safe_load(STUDY) | {"arms": {}}, quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr("study.session.close_study", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            study.run_study(file, quiet=True)
    study.run_study(file, resume=True, quiet=True)


def test_what_a_study_prints_in_a_notebook_has_no_secrets(home, monkeypatch, capsys):
    def printing(request, console):
        console.print("stored at postgresql://me:hunter2@host/db", 1)
        raise study.Paused("enough")

    monkeypatch.setattr(session, "carry_out", printing)
    with pytest.raises(study.Paused):
        study.run_study(write_study(home))
    assert capsys.readouterr().out == "stored at postgresql://me:***@host/db 1\n"


def test_a_result_shows_itself_and_escapes_what_users_wrote(home):
    found = StudyResult(
        study.load_study(write_study(home)),
        home / "studies" / "<own>",
        {"W1": "supported"},
        ("W1: Supported: <wide> & 'tall'.",),
        failed=False,
    )
    assert repr(found) == "study own\nW1: Supported: <wide> & 'tall'."
    page = found._repr_html_()
    assert "Is &lt;wide&gt; better?" in page
    assert "&lt;wide&gt; &amp;" in page
    assert "<wide>" not in page
    assert "<own>" not in page
    assert found.report == home / "studies" / "<own>" / "report" / "report.html"


@pytest.mark.slow
def test_a_study_under_ray_from_a_thread(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    file = write_study(tmp_path)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    found: list[StudyResult] = []
    thread = threading.Thread(target=lambda: found.append(study.run_study(file, quiet=True)))
    thread.start()
    thread.join(200)
    (result,) = found
    assert result.verdicts == {"W1": "supported"}
    assert not result.failed
    assert len(result.runs) == 20
    assert set(result.results["arm"]) == {"narrow", "wide"}
    assert result.report.exists()
    assert "W1: Supported" in result._repr_html_()
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_the_modules_of_the_commands_keep_their_names():
    import analysis.report
    import study.report
    import study.run

    for module in (study.run, study.report, analysis.report):
        assert isinstance(module, types.ModuleType)


def test_all_public_names_are_there():
    for name in study.__all__:
        assert getattr(study, name) is not None
        assert name in dir(study)
    with pytest.raises(AttributeError, match="no attribute 'run_twice'"):
        _ = study.run_twice
