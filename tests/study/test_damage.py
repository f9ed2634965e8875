"""What does a damaged file cost? One message that says what to do, or nothing at all.

A finished study is copied for each case, one file of it is damaged in one way, and every command is
run on it in this process.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import without_ray, write_study
from quick import first_quick

from analysis import report as analysis_report
from analysis.rendering import Report
from study import cli, report, run
from study.records.ledger import Ledger

PARTS = (
    "study.yaml", "winners.json", "runs.csv", "results.csv", "search.db", "sessions.jsonl",
    "sessions.sha256", "report/report.json", "runs/search/narrow/0001.json",
    "runs/confirm/wide/default/0003.json",
)  # fmt: skip
REBUILT = ("runs.csv", "results.csv", "search.db", "report/report.json")


def with_another_digit(content: bytes) -> bytes:
    """A figure's third digit after the point: what is changed matters."""
    changed, count = re.subn(
        rb"(\d\.\d{2})(\d)", lambda m: m[1] + str((int(m[2]) + 1) % 10).encode(), content, count=1
    )
    return changed if count else content.replace(b"1", b"2", 1)


HARM: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "nothing": lambda content: b"",
    "garbage": lambda content: bytes(range(255, -1, -1)) * (len(content) // 256 + 1),
    "zeros": lambda content: b"\0" * len(content),
    "another type": lambda content: b"[1, 2]\n",
    "another digit": with_another_digit,
}
WAYS = (*HARM, "folder", "deleted")
COMMANDS: dict[str, Callable[[], int]] = {
    "list": lambda: cli.main(["list"]),
    "show": lambda: cli.main(["show", "own"]),
    "analysis": lambda: analysis_report.main(["studies/own/results.csv", "--out", "elsewhere"]),
    "plan": lambda: run.main(["own.yaml", "--dry-run", "--pilot", "own", "--name", "next"]),
    "verify": lambda: report.main(["own", "--verify"]),
    "report": lambda: report.main(["own"]),
    "resume": lambda: run.main(["own.yaml", "--resume"]),
}
QUICK = {
    ("study.yaml", "folder"), ("winners.json", "another type"),
    ("report/report.json", "another type"),
}  # fmt: skip
# All 80 by hand, with DAMAGE=all, in some three minutes; else every part and every way once.
ALL = list(itertools.product(PARTS, WAYS))
ONCE = [(part, WAYS[number % len(WAYS)]) for number, part in enumerate(PARTS)]
CASES = [
    pytest.param(part, way, marks=[] if (part, way) in QUICK else pytest.mark.slow)
    for part, way in ALL
    if os.environ.get("DAMAGE") == "all" or (part, way) in {*QUICK, *ONCE}
]


def damage(file: Path, way: str) -> None:
    if way in HARM:
        file.write_bytes(HARM[way](file.read_bytes()))
        return
    file.unlink()
    if way == "folder":
        file.mkdir()
        (file / "something").touch()


def save_quickly(found: Report, folder: str | Path) -> Path:
    """The report without its figures, which take seconds."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "report.json").write_text(json.dumps(found))
    return found.to_html(Path(folder) / "report.html")


def page_quickly(found: Report, path: str | Path) -> Path:
    Path(path).write_text("the page")
    return Path(path)


def prepare(patch: pytest.MonkeyPatch, home: Path) -> None:
    patch.chdir(home)
    without_ray(patch)
    patch.setattr(Report, "save", save_quickly)
    patch.setattr(Report, "to_html", page_quickly)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Where a study has run to its end."""
    home = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch, home)
        write_study(home)
        assert run.main(["own.yaml"]) == 0
    return home


@pytest.fixture
def here(whole, tmp_path, monkeypatch) -> Path:
    """The study's folder, in a copy."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    prepare(monkeypatch, tmp_path)
    return tmp_path / "studies" / "own"


def outcome(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("results.csv", "winners.json")}


@pytest.mark.parametrize(("part", "way"), CASES)
def test_a_damaged_file_is_named_or_mended_by_every_command(whole, here, capsys, part, way):
    before = outcome(here)
    for name, command in COMMANDS.items():
        shutil.rmtree(here)
        shutil.copytree(whole / "studies" / "own", here)
        damage(here / part, way)
        code = command()  # an exception that escapes fails the test
        told = capsys.readouterr()
        text = " ".join((told.out + told.err).split())
        assert code in (0, 1, 2), (name, code)
        assert "Traceback" not in text
        if code == 2 and name not in ("list", "show"):
            assert "try:" in told.err, (name, told.err)
            assert len(told.err.splitlines()) <= 4, told.err
        if name == "verify" and not harmless(part, way):
            assert code != 0
            # By its name, or by the job's that it is the record of.
            named = {part, Path(part).name, part.removeprefix("runs/").removesuffix(".json")}
            named |= {"there is no study in"} if part == "study.yaml" else set()
            named |= {"sessions.jsonl"} if part == "sessions.sha256" else set()
            named |= {"results.csv"} if "confirm" in part else set()
            assert any(word in text for word in named), text
    if code == 0:  # of the last one, --resume
        assert outcome(here) == before
        assert report.main(["own", "--verify"]) == (
            1 if "sessions" in part and not harmless(part, way) else 0
        )


def harmless(part: str, way: str) -> bool:
    """What accuses nobody.

    Half of the list of hashes: a log may have outlived it by a crash. The first figure in
    `search.db`: it is in a text that nothing reads; `TestSearchDb` changes one that matters.
    """
    return (part, way) in (("sessions.sha256", "half"), ("search.db", "another digit"))


@pytest.mark.parametrize(
    "case",
    first_quick([
        ("report/report.json", '{"claims": 3, "comparisons": [4]}'),
        ("report/report.json", '{"claims": [[]], "comparisons": {"a": 1}}'),
        ("winners.json", '{"hash": 1, "winners": 2}'),
        ("study.yaml", "id: 1\nhash: 2\nenvironments: 3\n"),
        ("study.yaml", "id: 1\nhash: 2\nenvironments: [3]\nsearch: 4\n"),
        ("sessions.jsonl", '{"session": [], "hash": [], "units": {}, "seeds": 3, "at": 4}\n'),
        ("runs/search/narrow/0001.json", '{"job": [], "records": 3, "outcome": []}'),
        ("runs/confirm/wide/default/0003.json", '{"sha256": []}'),
    ]),
)  # fmt: skip
def test_values_of_another_type_are_no_surprise(here, capsys, case):
    part, content = case
    (here / part).write_text(content)
    for name, command in COMMANDS.items():
        if name != "report":  # which writes the report anew
            assert command() in (0, 1, 2), name
            assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", first_quick(["runs", "report"]))
def test_a_file_in_a_folder_s_place_is_one_message(here, capsys, name):
    shutil.rmtree(here / name)
    (here / name).touch()
    assert run.main(["own.yaml", "--resume"]) == 2
    assert f"{name} is a file where a folder of the study belongs" in capsys.readouterr().err


ENDS = [(1, "deleted"), (3, "nothing"), (4, "deleted"), (7, "zeros")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lock", "sessions.lock", "report/report.html"])
def test_a_folder_in_any_file_s_place_is_one_message(here, capsys, name):
    (here / name).unlink(missing_ok=True)
    (here / name).mkdir()
    assert run.main(["own.yaml", "--resume"]) == 2
    told = capsys.readouterr().err
    assert f"{name} is a folder where a file of the study belongs" in told
    assert "try: move the folder away" in told


@pytest.mark.slow
@pytest.mark.parametrize("part", ["study.yaml", "sessions.jsonl", "runs/search/narrow/0001.json"])
def test_a_disk_that_does_not_give_a_file_is_one_message(here, monkeypatch, capsys, part):
    def failing(real):
        def read(path: Path, *args, **options):
            if path.as_posix().endswith(f"own/{part}"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return real(path, *args, **options)

        return read

    for method in ("read_text", "read_bytes", "open"):
        monkeypatch.setattr(Path, method, failing(getattr(Path, method)))
    for name in ("report", "verify", "show", "list"):
        assert COMMANDS[name]() == (2 if name in ("report", "verify") else 0)
        told = "".join(capsys.readouterr())
        assert "Input/output error" in " ".join(told.split())


class TestSearchDb:
    """What `search.db` knew stands in the records of the trials, too."""

    @staticmethod
    def interrupt(monkeypatch, after: int) -> None:
        """Run the study up to so many endings."""
        write, left = Ledger.write, [after]

        def stopping(ledger, ending) -> None:
            write(ledger, ending)
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "write", stopping)
            assert run.main(["own.yaml"]) == 130

    @pytest.mark.parametrize(
        ("after", "way"),
        [(3, "half"), *(pytest.param(*case, marks=pytest.mark.slow) for case in ENDS)],
    )
    def test_damage_in_mid_study_changes_no_result(
        self, whole, here, monkeypatch, capsys, after, way
    ):
        expected = outcome(here)
        shutil.rmtree(here)
        self.interrupt(monkeypatch, after)
        damage(here / "search.db", way)
        capsys.readouterr()
        assert run.main(["own.yaml", "--resume"]) == 0
        trials = min(after, 4)
        state = "was missing" if way == "deleted" else "was damaged"
        told = [line for line in capsys.readouterr().err.splitlines() if "search.db" in line]
        assert len(told) == 1
        assert f"search.db {state}; it is rebuilt from {trials} trials in runs/search" in told[0]
        assert outcome(here) == expected
        assert report.main(["own", "--verify"]) == 0

    @pytest.mark.slow
    def test_winners_that_are_chosen_again_are_the_same(self, here):
        expected = outcome(here)
        (here / "winners.json").unlink()
        (here / "search.db").write_bytes(b"")
        assert run.main(["own.yaml", "--resume"]) == 0
        assert outcome(here) == expected

    @pytest.mark.slow
    def test_a_figure_that_was_changed_in_it_is_named(self, here, capsys):
        with contextlib.closing(sqlite3.connect(here / "search.db")) as database, database:
            database.execute("UPDATE trial_values SET value = value / 2 WHERE trial_id = 1")
        assert report.main(["own", "--verify"]) == 1
        assert "search/narrow/0000: was judged by val/error as" in capsys.readouterr().out

    @pytest.mark.slow
    def test_a_trial_s_record_that_is_lost_after_the_search_is_made_again(self, here):
        file = here / "runs" / "search" / "wide" / "0001.json"
        expected, records = outcome(here), json.loads(file.read_text())["records"]
        file.write_text(file.read_text()[:100])
        assert run.main(["own.yaml", "--resume"]) == 0
        assert [r["metrics"]["val/error"] for r in json.loads(file.read_text())["records"]] == [
            r["metrics"]["val/error"] for r in records
        ]
        assert outcome(here) == expected
        assert report.main(["own", "--verify"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["half", "deleted"])
def test_a_recheck_s_record_that_is_lost_after_the_search_is_made_again(here, way):
    shutil.rmtree(here)
    rechecks = "search.rechecks={top: 1, seeds: [21, 22]}"
    assert run.main(["own.yaml", "--set", rechecks]) == 0
    expected, files = outcome(here), sorted((here / "runs" / "recheck").rglob("*.json"))
    assert len(files) == 4
    before = json.loads(files[1].read_text())["records"]
    damage(files[1], way)
    assert run.main(["own.yaml", "--set", rechecks, "--resume"]) == 0
    after = json.loads(files[1].read_text())["records"]
    assert [r["metrics"]["val/error"] for r in after] == [r["metrics"]["val/error"] for r in before]
    assert outcome(here) == expected
    assert report.main(["own", "--verify"]) == 0


class TestChecksum:
    CHANGED = "runs/confirm/wide/default/0003.json"

    def change(self, here: Path) -> bytes:
        """Better test errors in one record, and all that is derived from it written anew."""
        file = here / self.CHANGED
        before = file.read_bytes()
        data = json.loads(before)
        data["records"][-1]["metrics"]["test/error"] /= 2
        file.write_text(json.dumps(data))
        # As somebody would who knows the files, and not the checksum.
        endings = json.loads(file.read_text())["records"][-1]["metrics"]["test/error"]
        old = json.loads(before)["records"][-1]["metrics"]["test/error"]
        table = here / "results.csv"
        assert repr(old) in table.read_text()
        table.write_text(table.read_text().replace(repr(old), repr(endings)))
        return before

    def test_a_changed_record_is_named_and_decides_nothing(self, here, capsys):
        self.change(here)
        assert report.main(["own"]) == 0
        found = json.loads((here / "report" / "report.json").read_text())
        assert found["claims"][0]["verdict"] == "undecided"
        told = f"{self.CHANGED}: was changed after the run had ended"
        assert any(told in look["why"] for look in found["design"]["looks"])
        capsys.readouterr()
        assert report.main(["own", "--verify"]) == 1
        assert told in capsys.readouterr().out

    @pytest.mark.slow
    def test_a_study_with_a_changed_record_goes_on_once_it_is_restored_or_deleted(
        self, here, capsys
    ):
        expected = outcome(here)
        before = self.change(here)
        log = (here / "sessions.jsonl").read_bytes()
        assert run.main(["own.yaml", "--resume"]) == 2
        told = capsys.readouterr().err
        assert f"{self.CHANGED}: was changed after the run had ended" in told
        assert "restore the file, or delete it" in told
        assert (here / "sessions.jsonl").read_bytes() == log  # no session began
        for remedy in (lambda file: file.write_bytes(before), Path.unlink):
            self.change(here) if (here / self.CHANGED).read_bytes() == before else None
            remedy(here / self.CHANGED)
            assert run.main(["own.yaml", "--resume"]) == 0
            assert outcome(here) == expected
            assert report.main(["own", "--verify"]) == 0

    @pytest.mark.slow
    def test_records_of_earlier_versions_have_none(self, here):
        for file in (here / "runs").rglob("*.json"):
            data = json.loads(file.read_text())
            assert len(data.pop("sha256")) == 64
            file.write_text(json.dumps(data))
        assert run.main(["own.yaml", "--resume"]) == 0
        assert report.main(["own", "--verify"]) == 0

    @pytest.mark.slow
    def test_several_changed_records_are_counted(self, here, capsys):
        files = sorted((here / "runs").rglob("*.json"))
        for file in files[:7]:
            file.write_text(file.read_text().replace('"seed": ', '"seed": 1'))
        assert report.main(["own", "--verify"]) == 1
        assert f"7 records, the first {files[0].relative_to(here)}" in capsys.readouterr().out
        assert run.main(["own.yaml", "--resume"]) == 2
        assert "and 2 more" in capsys.readouterr().err
