"""Optional stopping has no way round: each is logged where the study lives, and told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from in_process import without_ray, write_study

import study
from analysis.inputs.session_log import LOST, SessionLog
from analysis.report import analyse
from study.phases.optuna_storage import open_storage
from study.reporting import provenance_of
from study.reporting.looks import breaks, ended_units, note_look, seen_elsewhere
from study.spec import load_study
from study.storage import Folder

STUDY = """\
name: own
workload: my_training:train
metrics:
  val/error:  {better: lower, unit: fraction}
  test/error: {better: lower, unit: fraction}
arms:
  narrow: {width: 4}
  wide:   {width: 8}
confirm: {seeds: 8}
claims:
  - {id: W1, better: wide, than: narrow, metric: test/error}
margin: 0.001
"""
SEARCHED = (
    STUDY.replace("confirm: {seeds: 8}", "confirm: {seeds: 1}")
    + """\
search:
  replicates: 6
  trials_per_arm: 2
  space: {rate: {low: 0.1, high: 0.9}}
"""
)


class Stopped(BaseException):
    """The driver is ended from outside."""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A working directory in which studies run in this process, without pages and figures."""
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    monkeypatch.setattr("study.session.close_study", close)
    monkeypatch.setattr("study.api._result", lambda found, folder, failed: folder)
    write_study(tmp_path, STUDY)
    (tmp_path / "searched.yaml").write_text(SEARCHED)
    return tmp_path


def close(folder: Folder, *_: object, **__: object) -> int:
    """What the end of a study does but for the pages: it looks."""
    note_look(folder, by="the report")
    return 0


def run(name: str, *overrides: str, stop: int | None = None, file: str = "own.yaml", **options):
    """A study, ended after so many jobs; its folder."""
    with pytest.MonkeyPatch.context() as patch:
        if stop is not None:
            from study.records import Ledger

            write = Ledger.write

            def stopping(ledger, ending) -> None:
                write(ledger, ending)
                stopping.left -= 1
                if not stopping.left:
                    raise Stopped

            stopping.left = stop
            patch.setattr(Ledger, "write", stopping)
        try:
            study.run_study(file, name=name, overrides=overrides, quiet=True, **options)
        except Stopped:
            assert stop is not None
    return Folder(Path("studies") / name)


def answer(folder: Folder) -> tuple[str, str | None]:
    """Verdict and reason of the only claim, as the study's report has them."""
    report = analyse(
        folder.results_csv, plan=folder.study_yaml, runs=folder.runs_csv,
        provenance=provenance_of(folder),
    )  # fmt: skip
    claim = report["claims"][0]
    return claim["verdict"], claim["reason"]


UNPLANNED = ("undecided", "unplanned_looks")


@pytest.mark.slow
def test_an_undisturbed_study_decides_however_often_it_is_read(home):
    folder = run("own")
    for _ in range(3):
        note_look(folder, by="the report")
    assert answer(folder) == ("supported", None)
    assert breaks(folder) == []


@pytest.mark.slow
def test_a_study_that_was_interrupted_and_not_looked_at_decides(home):
    run("own", stop=11)
    assert answer(run("own", resume=True)) == ("supported", None)


class TestLooksAtItself:
    def test_a_report_before_the_end_decides_nothing_ever(self, home):
        folder = run("own", stop=14)
        assert ended_units(folder, folder.load()) == 7
        note_look(folder, by="the report")
        assert answer(folder) == UNPLANNED
        assert answer(run("own", resume=True)) == UNPLANNED

    @pytest.mark.slow
    def test_one_run_that_is_missing_is_enough(self, home):
        folder = run("own", stop=15)
        note_look(folder, by="the report")
        assert answer(folder) == UNPLANNED

    @pytest.mark.slow
    def test_growing_a_study_that_nobody_reported_is_a_look(self, home):
        """Its scores could be watched in MLflow, or in its folder."""
        run("own", stop=10)
        grown = run("own", "confirm.seeds=12", resume=True)
        assert answer(grown) == UNPLANNED
        (look,) = provenance_of(grown)["looks"]
        assert (look["units"], "the plan grew when 5 units" in look["why"]) == (5, True)

    @pytest.mark.slow
    def test_growing_before_any_unit_has_ended_is_none(self, home):
        run("own", stop=1)
        assert answer(run("own", "confirm.seeds=12", resume=True)) == ("supported", None)

    @pytest.mark.slow
    def test_units_are_replicates_where_there_are_any(self, home):
        folder = run("searched", stop=12, file="searched.yaml")
        assert ended_units(folder, folder.load()) == 2
        folder = run("searched", file="searched.yaml", resume=True)
        assert ended_units(folder, folder.load()) == 6
        assert answer(folder) == ("supported", None)

    @pytest.mark.slow
    def test_the_report_says_that_scores_could_be_watched(self, home):
        assert "could be watched" in provenance_of(run("own"))["scores before the end"]


class TestOtherNames:
    def test_more_seeds_under_a_new_name_are_a_look(self, home, capsys):
        run("own", stop=14)
        folder = run("again", "confirm.seeds=10")
        assert answer(folder) == UNPLANNED
        (look,) = provenance_of(folder)["looks"]
        assert "7 units had been seen in the study own" in look["why"]

    @pytest.mark.slow
    def test_other_claims_on_scores_that_are_known_are_one_too(self, home):
        run("own")
        assert answer(run("again", "margin=0.5")) == UNPLANNED

    @pytest.mark.slow
    def test_the_same_study_again_is_none(self, home):
        run("own")
        assert answer(run("again")) == ("supported", None)

    @pytest.mark.slow
    def test_looks_at_the_same_study_count_under_each_of_its_names(self, home):
        note_look(run("own", stop=14), by="the report")
        assert answer(run("again")) == UNPLANNED

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "overrides",
        [
            ["confirm.seeds=[11,12,13,14,15,16]"],
            ["trial.rate=0.3", "confirm.seeds=10"],
            ["arms={narrow: {width: 4}, wider: {width: 9}}",
             "claims=[{id: W, better: wider, than: narrow, metric: test/error}]"],
        ],
    )  # fmt: skip
    def test_other_seeds_settings_or_arms_are_another_study(self, home, overrides):
        run("own")
        folder = run("new", *overrides)
        assert [entry for entry in folder.log.entries() if "study" in entry] == []
        assert answer(folder)[1] != "unplanned_looks"

    @pytest.mark.slow
    def test_a_default_that_is_written_and_other_names_of_arms_hide_nothing(self, home):
        run("own")
        renamed = load_study(
            "own.yaml",
            name="new",
            overrides=[
                "arms={a: {width: 4, rate: 0.5}, b: {width: 8}}", "arms.narrow=null",
                "arms.wide=null",
                "claims=[{id: W, better: b, than: a, metric: test/error}]",
            ],
        )  # fmt: skip
        (seen,) = seen_elsewhere(renamed, home / "studies")
        assert (seen.units, seen.planned, seen.same) == (8, 8, False)

    @pytest.mark.slow
    def test_searches_are_the_same_by_their_seed_and_space(self, home):
        run("searched", stop=12, file="searched.yaml")
        storage = home / "studies"

        def seen(*overrides: str) -> list[int]:
            found = load_study("searched.yaml", name="x", overrides=overrides)
            return [other.units for other in seen_elsewhere(found, storage)]

        assert seen("search.replicates=9") == [2]
        assert seen("search.trials_per_arm=3") == [2]
        assert seen("search.seed=1") == []
        assert seen("search.space.rate.high=0.8") == []

    @pytest.mark.slow
    def test_what_to_do_is_told_and_works(self, home):
        run("own")
        again = load_study("own.yaml", name="x", overrides=["margin=0.5"])
        (seen,) = seen_elsewhere(again, home / "studies")
        assert "8 of this study's 8 units have been seen" in seen.told(again)
        remedy = seen.told(again).split("--set ")[1]
        fresh = load_study("own.yaml", name="x", overrides=["margin=0.5", remedy])
        assert seen_elsewhere(fresh, home / "studies") == []

    @pytest.mark.slow
    def test_what_is_in_a_store_counts_as_well(self, home):
        store = (home / "store").as_uri()
        run("own", storage=store)
        folder = home / "store" / "own"
        assert (folder / "study.yaml").exists()
        assert not (folder / "sessions.sha256").exists()
        from study.session import seen_before

        (seen,) = seen_before(load_study("own.yaml", name="x", overrides=["margin=0.5"]), store)
        assert (seen.study, seen.units) == ("own", 8)

    @pytest.mark.slow
    def test_a_damaged_neighbour_is_passed_over(self, home):
        (run("own").path / "study.yaml").write_text("{{{")
        assert answer(run("again", "margin=0.5")) == ("supported", None)


class TestTampering:
    def test_a_look_that_is_deleted_is_missed(self, home):
        folder = run("own", stop=14)
        note_look(folder, by="the report")
        lines = folder.log.file.read_text().splitlines(keepends=True)
        folder.log.file.write_text("".join(lines[:-1]))
        folder = run("own", resume=True)
        assert breaks(folder) != []
        assert answer(folder) == UNPLANNED

    @pytest.mark.slow
    def test_runs_remember_a_log_that_was_written_anew(self, home):
        folder = run("own")
        for file in ("sessions.jsonl", "sessions.sha256"):
            (folder.path / file).unlink()
        SessionLog(folder.path).append(session=1, hash=folder.hash(), seeds=list(range(1, 9)))
        told = "16 runs, the first confirm/narrow/default/0001, ran under a line"
        assert any(told in found for found in breaks(folder))
        assert answer(folder) == UNPLANNED

    @pytest.mark.slow
    def test_a_design_that_no_session_ran_under_is_named(self, home):
        folder = run("own")
        data = yaml.safe_load(folder.study_yaml.read_text()) | {"margin": 0.5}
        folder.study_yaml.write_text(yaml.safe_dump(data, sort_keys=False))
        assert "differs from the one that its hash was taken of" in breaks(folder)[0]
        data["hash"] = folder.computed_hash()
        folder.study_yaml.write_text(yaml.safe_dump(data, sort_keys=False))
        assert breaks(folder) == [f"study.yaml: no session of the log ran under this design{LOST}"]
        assert answer(folder) == UNPLANNED

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("also", "told"), [([], "began on"), (["sessions.*"], "has trained"),
                           (["sessions.*", "runs"], "has trained")]
    )  # fmt: skip
    def test_a_design_that_was_deleted_is_not_replaced_by_another(self, home, also, told):
        folder = run("own", stop=14, file="searched.yaml")
        folder.study_yaml.unlink()
        for file in [file for pattern in also for file in folder.path.glob(pattern)]:
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        with pytest.raises(study.StudyError, match=f"is missing, but the study {told}"):
            run("own", "margin=0.5", resume=True, file="searched.yaml")
        assert (folder.path / "search.db").exists()

    @pytest.mark.slow
    def test_a_search_that_ran_under_another_design_is_named(self, home):
        """As where claims were changed and all but the search thrown away."""
        folder = run("own", file="searched.yaml")
        storage = open_storage(folder.path)
        for known in storage.get_all_studies():
            assert known.user_attrs["designs"] == [folder.hash()]
        storage.set_study_user_attr(known._study_id, "designs", ["0" * 64])
        told = "search.db: trials ran under a design that sessions.jsonl does not have"
        assert breaks(folder) == [told + LOST]
        assert answer(folder) == UNPLANNED

    def test_every_run_names_its_design_and_its_line_of_the_log(self, home):
        folder = run("own")
        for file in (folder.path / "runs").rglob("*.json"):
            stamp = json.loads(file.read_text())["stamp"]
            assert stamp["design"] == folder.hash()
            assert stamp["log"] in folder.log.hashes()
