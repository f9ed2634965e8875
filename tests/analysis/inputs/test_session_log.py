"""No line of a study's log can be changed, taken out or cut off without a trace."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from analysis.inputs.session_log import LOST, SessionLog, looks_taken


@pytest.fixture
def log(tmp_path: Path) -> SessionLog:
    log = SessionLog(tmp_path)
    log.append(session=1, seeds=[1, 2, 3])
    log.append(look=True, units=2)
    log.append(mlflow={"experiment": "1"})
    return log


def edit(log: SessionLog, change) -> None:
    lines = log.file.read_text().splitlines(keepends=True)
    log.file.write_text("".join(change(lines)))


def test_what_was_appended_is_read_and_whole(log):
    assert [entry.get("units") for entry in log.entries()] == [None, 2, None]
    assert all(entry["at"] for entry in log.entries())
    assert log.breaks() == []
    assert SessionLog(log.file.parent / "new").breaks() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[1:], "sessions.jsonl:1: lines before it"),
        (lambda lines: [lines[0], lines[2]], "sessions.jsonl:2: lines before it"),
        (lambda lines: lines[:-1], "its last lines were changed or taken out"),
        (lambda lines: [], "its last lines were changed or taken out"),
        (lambda lines: [line.replace('"units": 2', '"units": 3') for line in lines], "jsonl:3: "),
        (lambda lines: [*lines[:2], lines[2].replace('"1"', '"2"')], "its last lines were changed"),
        (lambda lines: [lines[1], lines[0], lines[2]], "sessions.jsonl:1: lines before it"),
    ],
)
def test_a_changed_log_says_so_whatever_is_appended_later(log, change, said: str):
    edit(log, change)
    (told,) = log.breaks()
    assert said in told
    log.append(session=2)
    assert len(log.breaks()) == 1
    log.append(look=True, units=3)
    assert len(log.breaks()) == 1


def test_a_cut_log_does_not_heal_by_losing_its_hashes(log):
    edit(log, lambda lines: lines[:-1])
    (log.file.parent / "sessions.sha256").unlink()
    told = "sessions.sha256 is missing, which has the hashes of sessions.jsonl"
    assert log.breaks() == [told + LOST]
    log.append(session=2)
    assert "lines before it" in log.breaks()[0]


@pytest.mark.parametrize("torn", ['{"session": 2, "com', "\0\0\0", "["])
def test_a_line_that_a_crash_has_torn_accuses_nobody(log, torn: str):
    with log.file.open("a") as file:
        file.write(torn)
    assert log.breaks() == []
    log.append(session=2)
    assert log.breaks() == []
    assert log.entries()[-1]["session"] == 2


def test_a_crash_before_the_hash_was_noted_accuses_nobody(log):
    hashes = log.file.parent / "sessions.sha256"
    *noted, last = hashes.read_text().splitlines(keepends=True)
    hashes.write_text("".join(noted) + last[:20])
    assert log.breaks() == []
    log.append(session=2)
    assert log.breaks() == []


def test_a_log_of_an_earlier_version_is_taken_as_it_is_and_covered_from_then_on(tmp_path):
    log = SessionLog(tmp_path)
    log.file.write_text('{"session": 1}\n{"look": true, "seeds": [1, 2]}\n')
    assert log.breaks() == []
    log.append(session=2)
    assert log.breaks() == []
    edit(log, lambda lines: lines[1:])
    assert log.breaks()


def test_a_copy_without_hashes_can_be_adopted(log):
    (log.file.parent / "sessions.sha256").unlink()
    log.adopt()
    assert log.breaks() == []
    edit(log, lambda lines: lines[:-1])
    assert log.breaks()


def test_each_state_of_the_log_has_a_hash(log):
    states = log.hashes()
    assert len(set(states)) == 4
    log.append(session=2)
    assert log.hashes()[:4] == states
    before = [json.loads(line)["before"] for line in log.file.read_text().splitlines()]
    assert before == log.hashes()[:-1]


def test_a_driver_and_a_report_may_write_at_the_same_time(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: SessionLog(tmp_path).append(look=True, units=i), range(40)))
    log = SessionLog(tmp_path)
    assert log.breaks() == []
    assert {entry["units"] for entry in log.entries()} == set(range(40))


class TestLooks:
    def test_those_before_the_planned_units_count_once(self):
        entries = [
            {"session": 1, "seeds": [1, 2, 3], "units": 0},
            {"look": True, "units": 0},
            {"look": True, "units": 2, "at": "2026-01-02T03:04:05"},
            {"look": True, "units": 2, "at": "2026-01-03T03:04:05"},
            {"look": True, "units": 3},
        ]
        (look,) = looks_taken(entries, 3)
        assert look["units"] == 2
        assert look["why"] == "looked at after 2 of 3 units on 2026-01-02"
        assert [look["units"] for look in looks_taken(entries, 8)] == [2, 3]

    def test_growing_after_units_have_ended_is_one(self):
        before = {"session": 1, "seeds": [1, 2, 3], "units": 0}
        grown = {"session": 2, "seeds": [1, 2, 3, 4], "units": 2}
        assert [look["units"] for look in looks_taken([before, grown], 4)] == [2]
        assert "the plan grew" in looks_taken([before, grown], 4)[0]["why"]
        assert looks_taken([before, before | {"units": 2}], 3) == []
        assert looks_taken([before, grown | {"units": 0}], 4) == []

    def test_of_an_earlier_version_the_seeds_are_counted(self):
        entries = [{"session": 1, "seeds": [1, 2]}, {"look": True, "seeds": [1, 2]}]
        assert [look["units"] for look in looks_taken(entries, 4)] == [2]
        assert looks_taken(entries, 2) == []

    def test_scores_seen_in_another_study_count_however_many(self):
        (look,) = looks_taken([{"look": True, "study": "x", "units": 8, "unplanned": True}], 8)
        assert (look["units"], look["unplanned"]) == (8, True)
        assert "in the study x" in look["why"]

    def test_a_broken_log_may_have_lost_some(self):
        (look,) = looks_taken([], 8, ["search.db: is no longer what it was"])
        assert look["unplanned"]
        assert look["why"] == "search.db: is no longer what it was"
