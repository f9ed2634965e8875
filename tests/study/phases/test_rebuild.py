"""Does a search whose Optuna storage is lost continue from the ledger as if it had not been?"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from quick import first_quick

from study.design.study import Study
from study.phases.arm import REJECTED
from study.phases.optuna_storage import designs_of, open_read_only
from study.phases.rebuild import mend_history
from study.phases.search import SearchSource
from study.records.job import Record
from study.records.ledger import Ending, Ledger
from study.spec.find_workload import resolved

METRIC = "val/knn_top1"
DESIGN = "d" * 64


def study(**search) -> Study:
    space = {
        "temperature": {"low": 0.1, "high": 1.0, "log": True},
        "num_positives": {"choices": [1, 2, 4]},
        "batch_size": {"low": 32, "high": 96, "step": 32},
    }
    return resolved(
        {
            "name": "s",
            "trial": {"dataset": "digits", "epochs": 4},
            "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "contrastive"}},
            "search": {
                "trials_per_arm": 6,
                "space": space,
                "require": "batch_size * num_positives <= 128",
                "early_stopping": {"grace_epochs": 1, "reduction_factor": 2},
            }
            | search,
            "confirm": {"seeds": 2},
        }
    )


def ledger(folder: Path) -> Ledger:
    return Ledger(folder, {"design": DESIGN})


def search(folder: Path, s: Study, jobs: int = 1000, storage=None) -> SearchSource:
    """Search from wherever it stands, up to so many trials; the last one is left running."""
    folder.mkdir(exist_ok=True)
    source = SearchSource(s, folder, ledger(folder), slots=1, storage=storage)
    while (job := source.next()) is not None:
        jobs -= 1
        if not jobs:
            break
        records: list[Record] = []
        stopped = False
        while len(records) <= 4 and not stopped:
            epoch = len(records)
            value = 0.9 - 0.1 / (epoch + 1) - abs(job.config["temperature"] - 0.3)
            value += 0.01 * job.config.get("num_positives", 1)
            records.append(Record(epoch, {METRIC: value, "views": 10.0 * epoch}, {}))
            stopped = source.on_records(job, records[-1:])
        outcome = "failed" if job.number == 2 else "stopped" if stopped else "finished"
        source.on_end(Ending(job, outcome, tuple(records), "broke" if job.number == 2 else ""))
    return source


def rebuilt(folder: Path, s: Study) -> list[str]:
    """What is told."""
    told: list[str] = []
    mend_history(s, folder, ledger(folder), say=told.append)
    return told


def trials(folder: Path, storage=None) -> dict[str, list[tuple]]:
    """All that the search's decisions rest on, draws that were rejected included."""
    found = {}
    storage = storage or open_read_only(folder / "search.db")
    for name in ("s/a", "s/b"):
        try:
            known = optuna.load_study(study_name=name, storage=storage)
        except KeyError:  # nothing of it has ended
            continue
        found[name] = [
            (t.number, t.state, t.params, t.distributions, t.values, t.intermediate_values,
             t.user_attrs) for t in known.trials if t.state != TrialState.RUNNING
        ]  # fmt: skip
    return found


ENDS = [("tpe", 2), ("tpe", 1000), ("random", 11), ("qmc", 11), ("nsga2", 12), ("gp", 12)]


@pytest.mark.parametrize(
    ("sampler", "after"), [("tpe", 11), *(pytest.param(*e, marks=pytest.mark.slow) for e in ENDS)]
)
def test_a_lost_history_is_rebuilt_and_the_search_ends_as_undisturbed(tmp_path, sampler, after):
    s, undisturbed = study(sampler=sampler), optuna.storages.InMemoryStorage()
    whole = search(tmp_path / "whole", s, storage=undisturbed)
    folder = tmp_path / "lost"
    search(folder, s, jobs=after)
    before = trials(folder)
    (folder / "search.db").unlink()
    (told,) = rebuilt(folder, s)
    ended = len(list(folder.rglob("runs/search/**/*.json")))
    assert f"was missing; it is rebuilt from {ended} trials in runs/search" in told
    after_it = trials(folder)
    for name, known in after_it.items():
        assert known == before[name][: len(known)]  # draws that were rejected at the end may lack
    assert designs_of(folder) == {DESIGN}
    again = search(folder, s)
    assert trials(folder) == trials(tmp_path / "whole", undisturbed)
    assert again.winners() == whole.winners()
    assert rebuilt(folder, s) == []


def tried(folder: Path) -> dict[str, list[tuple]]:
    """Without the draws that were rejected."""
    return {n: [t for t in known if REJECTED not in t[-1]] for n, known in trials(folder).items()}


def test_rejected_draws_were_among_them(tmp_path):
    """Else the test above would show less than it says."""
    undisturbed = optuna.storages.InMemoryStorage()
    search(tmp_path / "whole", study(), storage=undisturbed)
    found = [t for known in trials(tmp_path, undisturbed).values() for t in known]
    assert any(REJECTED in t[-1] for t in found)
    states = {t[1] for t in found}
    assert states == {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}


@pytest.mark.slow
@pytest.mark.parametrize("changes", first_quick([
    {"sampler": "grid", "space": {"num_positives": {"choices": [1, 2, 4]}}, "trials_per_arm": 3,
     "require": []},
    {"first": [{"temperature": 0.3}, {"num_positives": 2}]},
    {"metric": [METRIC, "views"], "early_stopping": "none"},
    {"replicates": 2},
]))  # fmt: skip
@pytest.mark.parametrize("after", first_quick([4, 1000]))
def test_grids_first_points_costs_and_replicates_are_rebuilt_as_well(tmp_path, changes, after):
    s, undisturbed = study(**changes), optuna.storages.InMemoryStorage()
    whole = [search(tmp_path / "whole", part, storage=undisturbed) for part in s.replicates]
    for part in s.replicates:
        search(tmp_path / "lost", part, after)
    (tmp_path / "lost" / "search.db").write_bytes(b"garbage")
    assert "was damaged" in rebuilt(tmp_path / "lost", s)[0]
    for part, source in zip(s.replicates, whole, strict=True):
        assert search(tmp_path / "lost", part).winners() == source.winners()
    drawn = [
        {
            e.job.key: (e.job.drawn, e.outcome, e.records)
            for e in ledger(tmp_path / name).all("search")
        }
        for name in ("whole", "lost")
    ]
    assert drawn[0] == drawn[1]


@pytest.mark.slow
@pytest.mark.parametrize("lost", first_quick([2, 3]))
def test_a_trial_that_is_lost_with_the_history_is_drawn_again(tmp_path, lost: int):
    s = study()
    whole = search(tmp_path / "whole", s)
    numbers = [e.job.number for e in ledger(tmp_path / "whole").all("search") if e.job.arm == "a"]
    file = tmp_path / "whole" / "runs" / f"search/a/{numbers[lost]:04d}.json"
    before, text = tried(tmp_path / "whole"), file.read_text()
    file.unlink()
    (tmp_path / "whole" / "search.db").unlink()
    rebuilt(tmp_path / "whole", s)
    assert search(tmp_path / "whole", s).winners() == whole.winners()
    assert file.read_text() == text
    assert tried(tmp_path / "whole") == before


@pytest.mark.slow
def test_an_older_copy_of_the_history_is_replaced_and_kept(tmp_path):
    s = study()
    search(tmp_path / "s", s, jobs=5)
    shutil.copy(tmp_path / "s" / "search.db", tmp_path / "older")
    search(tmp_path / "s", s)
    before = trials(tmp_path / "s")
    for kept in ("search.db.damaged", "search.db.damaged-2"):
        shutil.copy(tmp_path / "older", tmp_path / "s" / "search.db")
        (tmp_path / "s" / "search.db-journal").write_bytes(b"of another file")
        (told,) = rebuilt(tmp_path / "s", s)
        assert "lacked" in told
        assert told.endswith(f"and what was there is {kept}")
        assert (tmp_path / "s" / kept).read_bytes() == (tmp_path / "older").read_bytes()
        assert not (tmp_path / "s" / "search.db-journal").exists()
        assert trials(tmp_path / "s") == before


def test_nothing_is_done_where_nothing_is_lost_or_the_history_is_locked(tmp_path):
    s = study()
    assert rebuilt(tmp_path, s) == []  # nothing has begun
    (tmp_path / "search.db").touch()
    assert rebuilt(tmp_path, s) == []  # killed while it began
    search(tmp_path, s, jobs=3)
    assert rebuilt(tmp_path, s) == []
    other = sqlite3.connect(tmp_path / "search.db")
    other.execute("BEGIN EXCLUSIVE")
    assert rebuilt(tmp_path, s) == []
    other.rollback()
    other.close()


def test_a_rebuilding_that_is_interrupted_is_done_at_the_next_start(tmp_path, monkeypatch):
    s = study()
    search(tmp_path / "s", s, jobs=9)
    before = tried(tmp_path / "s")
    (tmp_path / "s" / "search.db").write_bytes(b"x" * 10_000)
    with monkeypatch.context() as patch:
        patch.setattr("study.phases.rebuild._put_aside", lambda folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rebuilt(tmp_path / "s", s)
    assert (tmp_path / "s" / "search.db").read_bytes() == b"x" * 10_000
    assert len(rebuilt(tmp_path / "s", s)) == 1
    assert tried(tmp_path / "s") == before
