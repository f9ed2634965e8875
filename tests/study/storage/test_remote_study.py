"""Is what a store holds always a study that can go on, whatever fails, and nobody else's?"""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs
from quick import first_quick

from study.design.study import Study
from study.errors import Paused, StudyError
from study.phases.confirmation import ConfirmSource, confirmation_jobs
from study.phases.search import SearchSource
from study.records.files import write_whole
from study.records.job import Job, Record
from study.records.ledger import Ending, Ledger
from study.run import main
from study.spec.find_workload import resolved
from study.storage import driver_lease
from study.storage.driver_lease import SIGN, DriverLease
from study.storage.folder import Folder
from study.storage.mirror import Mirror
from study.storage.object_store import Store, StoreError
from study.storage.remote_study import RemoteStudy, fetch

METRIC = "val/knn_top1"


def address(tmp_path: Path) -> str:
    return (tmp_path / "bucket").as_uri()


def tree(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_a_cache_of_a_user_who_does_not_exist_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_CACHE", "~nobody-here/x")
    with pytest.raises(StudyError, match="CONTRASTIVE_CACHE is ~nobody-here/x, in the home folder"):
        RemoteStudy(address(tmp_path), "s", print)


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage", "part"),
    [
        ("ftp://host/x", "allowed: s3://…, gs://…"),
        ("s3://key:word@bucket/x", "credentials"),
        ("s3://bucket/x?secret_key=abc", "credentials"),
        ("s3://bucket/x?colour=red", "colour"),
        ("s3://", "s3://"),
    ],
)
def test_an_address_that_cannot_be_used_is_told(storage, part):
    with pytest.raises(StudyError) as told:
        Store(storage, "s")
    assert part in str(told.value)
    assert "word" not in str(told.value)
    assert "abc" not in str(told.value)


@pytest.mark.parametrize(
    ("storage", "told"),
    [
        ("gs://", "--storage gs:// names no bucket or folder\n  try: gs://bucket/studies"),
        ("s3://?region=eu-west-1", "--storage s3:// names no bucket"),
        ("file:///", "--storage file:// names no bucket or folder\n  try: file:///folder/studies"),
    ],
)
def test_an_address_without_a_bucket_is_told_as_it_was_typed(storage, told):
    with pytest.raises(StudyError) as error:
        Store(storage, "s")
    assert str(error.value).startswith(told)


def test_a_command_with_a_wrong_address_ends_with_2_and_without_a_traceback(tmp_path, capsys):
    smoke = str(Path(__file__).parents[3] / "search_spaces" / "smoke.yaml")
    assert main([smoke, "--storage", "ftp://host/x"]) == 2
    assert capsys.readouterr().err.startswith("--storage ftp://host/x is no address")
    (tmp_path / "file").write_text("")  # a file where the folder should be: it does not answer
    assert main([smoke, "--storage", (tmp_path / "file" / "x").as_uri(), "--resume"]) == 2
    told = capsys.readouterr().err
    assert "cannot be reached" in told
    assert "Traceback" not in told


def test_objects_come_back_as_they_were_put(tmp_path):
    store = Store(address(tmp_path), "s")
    assert store.read("a/b.json") is None
    store.write("a/b.json", b"one")
    store.write("a/b.json", b"two")
    big = tmp_path / "big"
    big.write_bytes(np.random.default_rng(0).bytes(9_000_000))
    store.copy(big, "big")
    assert store.read("a/b.json") == b"two"
    assert store.read("big") == big.read_bytes()
    store.fetch(tmp_path / "here")
    assert set(tree(tmp_path / "here")) == {"a/b.json", "big"}
    assert store.holds("big")
    store.remove("big")
    store.remove("big")
    assert not store.holds("big")


# --- what a prefix of the copying is worth -----------------------------------------------------


class Dying(Exception):
    pass


class Frail(Store):
    """A store that takes so many objects and then none any more."""

    def __init__(self, address: str, name: str, puts: int) -> None:
        super().__init__(address, name)
        self.left = puts

    def copy(self, file: Path, name: str) -> None:
        if self.left <= 0:
            raise StoreError("no route to host")
        self.left -= 1
        super().copy(file, name)


def searched() -> Study:
    return resolved(
        {
            "name": "s",
            "trial": {"dataset": "digits", "epochs": 4},
            "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos"}},
            "search": {
                "trials_per_arm": 4,
                "space": {"temperature": {"low": 0.1, "high": 1.0, "log": True}},
                "early_stopping": {"grace_epochs": 1, "reduction_factor": 2},
                "rechecks": {"top": 2, "seeds": [100]},
            },
            "confirm": {"seeds": 2},
        }
    )


def value(job: Job, epoch: int) -> float:
    return float(0.9 - abs(np.log(job.config["temperature"] / 0.3)) / 5 - 0.1 / (1 + epoch))


def carry_out(folder: Path, s: Study, after_each) -> None:
    """The study in `folder`, from wherever it stands, with curves in place of trainings."""
    there = Folder(folder)
    with there.locked():
        there.open(s, command="c", storage="x")
        there.log.append(session=len(there.log.entries()) + 1)
        ledger = Ledger(folder)
        winners = there.winners()
        if winners is None:
            source = SearchSource(s, folder, ledger, slots=2)
            play(source, after_each)
            play(ConfirmSource(source.recheck_jobs(), ledger, s.trains), after_each)
            winners = source.winners()
            there.freeze(winners)
            after_each()
        jobs = confirmation_jobs(s, winners, folder)
        play(ConfirmSource(jobs, ledger, s.trains), after_each)


def play(source, after_each) -> None:
    while source.remaining():
        job, records, stopped = source.next(), [], False
        while not stopped and len(records) <= job.planned_epochs:
            epoch = len(records)
            records.append(Record(epoch, {METRIC: value(job, epoch)}, {}))
            stopped = source.on_records(job, [records[-1]])
            after_each()
        source.on_end(Ending(job, "stopped" if stopped else "finished", tuple(records)))
        after_each()


def outcome(folder: Path) -> tuple:
    """Everything that tables and report are made of, without the folder's own name."""
    ledger = Ledger(folder)
    endings = [
        (e.job.key, e.job.config, e.outcome, e.records)
        for phase in ("search", "recheck", "confirm")
        for e in ledger.all(phase)
    ]
    return endings, Folder(folder).winners()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> tuple:
    folder = tmp_path_factory.mktemp("whole") / "s"
    carry_out(folder, searched(), lambda: None)
    return outcome(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_quick(range(5)))
def test_every_state_that_a_store_can_be_left_in_goes_on_to_the_same_end(
    tmp_path, undisturbed, seed
):
    """Copying dies after any object, at any moment, and with it the machine; again and again."""
    numbers = np.random.default_rng(seed)
    for attempt in range(6):
        folder = tmp_path / f"machine-{attempt}" / "s"
        store = Store(address(tmp_path), "s")
        if store.holds("study.yaml"):
            fetch(store, folder)
        frail = Frail(address(tmp_path), "s", puts=int(numbers.integers(1, 25)))
        mirror = Mirror(folder, frail, warn=print)
        lives = int(numbers.integers(5, 60))

        def step(mirror=mirror, chance=numbers) -> None:
            nonlocal lives
            lives -= 1
            if chance.random() < 0.3:
                mirror.round()  # raises where the store takes no more
            if lives < 0:
                raise Dying

        try:
            carry_out(folder, searched(), step)
        except (Dying, StoreError):
            shutil.rmtree(folder)  # the machine is gone
    folder = tmp_path / "last" / "s"
    if Store(address(tmp_path), "s").holds("study.yaml"):
        fetch(Store(address(tmp_path), "s"), folder)
    carry_out(folder, searched(), lambda: None)
    assert outcome(folder) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_quick(range(4)))
def test_no_ending_is_taken_for_another_trial_s_where_draws_depend_on_timing(tmp_path, seed):
    """Several trials of an arm side by side: after a loss the same number is drawn differently."""
    numbers = np.random.default_rng(seed)
    s = searched()
    for attempt in range(8):
        folder = tmp_path / f"machine-{attempt}" / "s"
        store = Frail(address(tmp_path), "s", puts=int(numbers.integers(1, 12)))
        if store.holds("search.db"):
            fetch(store, folder)
        folder.mkdir(parents=True, exist_ok=True)
        mirror = Mirror(folder, store, warn=print)
        lives = int(numbers.integers(10, 40)) if attempt < 7 else 10_000
        source = SearchSource(s, folder, Ledger(folder), slots=6)
        running: list[tuple[Job, list]] = []
        while source.remaining() or running:
            while len(running) < 6 and source.remaining() and (job := source.next()) is not None:
                running.append((job, []))
            job, records = running[numbers.integers(len(running))]
            records.append(Record(len(records), {METRIC: value(job, len(records))}, {}))
            stopped = source.on_records(job, [records[-1]])
            if stopped or len(records) > job.planned_epochs:
                running.remove((job, records))
                source.on_end(Ending(job, "stopped" if stopped else "finished", tuple(records)))
            lives -= 1
            try:
                if numbers.random() < 0.3:
                    mirror.round()
            except StoreError:
                lives = -1
            if lives < 0 and attempt < 7:
                break
    ledger = Ledger(folder)
    for name, arm in source._arms.items():
        trials = arm.started()
        assert len(trials) == 4
        for trial in trials:
            ending = ledger.read(f"search/{name}/{trial.number:04d}")
            assert ending.job.drawn == trial.params
            told = {
                epoch: ending.records[epoch].metrics[METRIC] for epoch in trial.intermediate_values
            }
            assert told == trial.intermediate_values
            assert (ending.outcome == "stopped") == (trial.state.name == "PRUNED")


def test_an_ending_is_never_in_the_store_without_its_trial_in_the_history(tmp_path):
    """The other order would let an ending be taken for that of a trial that is drawn anew."""
    order: list[str] = []

    class Noting(Store):
        def copy(self, file: Path, name: str) -> None:
            order.append(name)
            super().copy(file, name)

    folder = tmp_path / "s"
    carry_out(folder, searched(), lambda: None)
    for late in ("report/report.html", "results.csv", "checkpoints/confirm/a/x.pt"):
        write_whole(folder / late, "x")
    write_whole(folder / "ray" / "session" / "x", "x")
    Mirror(folder, Noting(address(tmp_path), "s"), warn=print).round()
    at = {name: order.index(name) for name in order}

    def below(start: str) -> list[int]:
        return [place for name, place in at.items() if name.startswith(start)]

    stages = [
        [at["study.yaml"]], [at["search.db"]], below("runs/search"), below("runs/recheck"),
        [at["winners.json"]], below("runs/confirm"), [at["results.csv"], *below("report/")],
        below("checkpoints/"),
    ]  # fmt: skip
    for earlier, later in itertools.pairwise(stages):
        assert max(earlier) < min(later)
    assert not below("ray/")
    assert not {"lock", "search.db.part"} & set(at)


def test_only_what_has_changed_is_copied_again(tmp_path):
    folder = tmp_path / "s"
    carry_out(folder, searched(), lambda: None)
    store = Frail(address(tmp_path), "s", puts=10_000)
    mirror = Mirror(folder, store, warn=print)
    mirror.round()
    before = store.left
    mirror.round()
    assert store.left == before
    write_whole(folder / "results.csv", "arm\n")
    mirror.round()
    assert store.left == before - 1
    fetched = tmp_path / "elsewhere" / "s"
    fetch(store, fetched)
    Mirror(fetched, store, warn=print, complete=True).round()
    assert store.left == before - 1


def test_a_checkpoint_that_is_no_longer_needed_leaves_the_store(tmp_path):
    folder = tmp_path / "s"
    write_whole(folder / "checkpoints" / "a.pt", "x")
    store = Store(address(tmp_path), "s")
    mirror = Mirror(folder, store, warn=print)
    mirror.round()
    assert store.holds("checkpoints/a.pt")
    (folder / "checkpoints" / "a.pt").unlink()
    mirror.round()  # they are looked at every few minutes only
    assert store.holds("checkpoints/a.pt")
    mirror.round(last=True)
    assert not store.holds("checkpoints/a.pt")


def test_checkpoints_that_an_earlier_session_left_in_the_store_leave_it(tmp_path):
    """Its machine died, went on later, and their trainings ended before anything was copied."""
    folder = tmp_path / "s"
    store = Store(address(tmp_path), "s")
    assert store.below("checkpoints/") == []
    for name in ("confirm/a/1.pt", "confirm/a/2.pt", "search/b/3.pt.part"):
        store.write(f"checkpoints/{name}", b"x")
    store.write("checkpoints.csv", b"x")
    write_whole(folder / "checkpoints" / "confirm" / "a" / "2.pt", "x")
    Mirror(folder, store, warn=print).round()
    assert store.below("checkpoints/") == ["checkpoints/confirm/a/2.pt"]
    assert store.holds("checkpoints.csv")


def test_a_store_that_fails_costs_a_warning_and_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("study.storage.mirror.EVERY_S", 0.05)
    said: list[str] = []
    folder = tmp_path / "s"
    write_whole(folder / "study.yaml", "a")
    store = Frail(address(tmp_path), "s", puts=0)
    mirror = Mirror(folder, store, warn=said.append)
    mirror.start()
    until(lambda: said)
    assert "cannot be written (no route to host)" in said[0]
    assert str(folder) in said[0]
    time.sleep(0.5)
    assert len(said) == 1  # once, not at every try
    store.left = 100
    until(lambda: len(said) == 2)
    assert "being written again" in said[1]
    assert mirror.close(5) == ""
    assert store.read("study.yaml") == b"a"


@pytest.mark.slow
def test_what_could_not_be_copied_is_said_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("study.storage.mirror.EVERY_S", 0.05)
    folder = tmp_path / "s"
    for name in ("study.yaml", "results.csv", "report/report.html"):
        write_whole(folder / name, "a")
    mirror = Mirror(folder, Frail(address(tmp_path), "s", puts=1), warn=lambda text: None)
    mirror.start()
    left = mirror.close(1.5)
    assert left.startswith(f"2 files of {folder}, the first re")
    assert left.endswith("(no route to host)")


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 1000])
def test_an_error_that_nobody_foresaw_neither_ends_the_copying_nor_is_kept_quiet(
    tmp_path, monkeypatch, times
):
    monkeypatch.setattr("study.storage.mirror.EVERY_S", 0.05)
    left = times

    class Exhausted(Store):
        def copy(self, file: Path, name: str) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                raise RuntimeError("can't start new thread")
            super().copy(file, name)

    folder = tmp_path / "s"
    write_whole(folder / "study.yaml", "a")
    store = Exhausted(address(tmp_path), "s")
    said: list[str] = []
    mirror = Mirror(folder, store, warn=said.append)
    mirror.start()
    until(lambda: said)
    assert "can't start new thread" in said[0]
    told = mirror.close(1.5)
    assert store.holds("study.yaml") == (times == 1)
    assert told.endswith("(can't start new thread)") == (times != 1)
    assert bool(told) == (times != 1)


@pytest.mark.slow
def test_an_end_in_a_hurry_waits_no_longer_than_said(tmp_path):
    class Slow(Store):
        def copy(self, file: Path, name: str) -> None:
            time.sleep(0.1)
            super().copy(file, name)

    folder = tmp_path / "s"
    for i in range(160):
        write_whole(folder / "runs" / "confirm" / f"{i:03d}.json", "a")
    mirror = Mirror(folder, Slow(address(tmp_path), "s"), warn=print)
    mirror.start()
    started = time.monotonic()
    left = mirror.close(0.5, hurry=True)
    assert time.monotonic() - started < 4
    assert "are not in" in left
    mirror = Mirror(folder, Slow(address(tmp_path), "s"), warn=print)
    mirror.start()
    assert mirror.close(0.5) == ""  # 2 s of work, but it goes on


# --- whose study is it -------------------------------------------------------------------------


@pytest.fixture
def brisk(monkeypatch):
    for name, seconds in (("BEAT_S", 0.2), ("SILENT_S", 1.0), ("_SETTLE_S", 0.1)):
        monkeypatch.setattr(driver_lease, name, seconds)


def foreign(store: Store, **changes) -> dict:
    sign = {"token": "t", "host": "other", "pid": 7, "place": "other:x", "at": "1", "ended": False}
    store.write(SIGN, json.dumps(sign | changes).encode())
    return sign | changes


def test_a_study_that_another_machine_runs_is_left_alone(tmp_path, brisk):
    store = Store(address(tmp_path), "s")
    other = DriverLease(store, tmp_path / "other")
    other.sign()
    other.keep(on_lost=lambda: None)
    said: list[str] = []
    with pytest.raises(StudyError, match="is being run by process"):
        DriverLease(store, tmp_path / "mine").wait_for_others(said.append)
    assert "looking for up to" in said[0]
    other.release()
    assert DriverLease(store, tmp_path / "mine").wait_for_others(said.append) == other.token
    assert len(said) == 1  # it had said that it ended


def test_a_machine_that_gives_no_sign_is_taken_for_dead(tmp_path, brisk):
    store = Store(address(tmp_path), "s")
    foreign(store, at="2999-01-01T00:00:00+00:00")  # its clock may have been anywhere
    assert DriverLease(store, tmp_path).wait_for_others(lambda text: None) == "t"


def test_a_dead_driver_of_the_same_folder_is_not_waited_for(tmp_path):
    store = Store(address(tmp_path), "s")
    DriverLease(store, tmp_path).sign()
    started = time.monotonic()
    DriverLease(store, tmp_path).wait_for_others(lambda text: pytest.fail(text))
    assert time.monotonic() - started < 5


def test_a_driver_that_was_taken_over_copies_nothing_more(tmp_path, brisk):
    store = Store(address(tmp_path), "s")
    mine = DriverLease(store, tmp_path)
    mine.sign()
    lost: list[bool] = []
    mine.keep(on_lost=lambda: lost.append(True))
    foreign(store)
    until(lambda: lost)
    assert mine.lost
    folder = tmp_path / "s"
    write_whole(folder / "results.csv", "mine")
    with pytest.raises(StoreError, match="taken the study over"):
        Mirror(folder, store, mine=mine.check, warn=print).round()
    assert not store.holds("results.csv")
    mine.release()
    assert json.loads(store.read(SIGN))["token"] == "t"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"token": 1}'])
def test_a_damaged_sign_is_nobody_s(tmp_path, content):
    store = Store(address(tmp_path), "s")
    store.write(SIGN, content)
    assert DriverLease(store, tmp_path).wait_for_others(lambda text: None) is None


# --- from here to there and back ---------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(tmp_path: Path, monkeypatch, cache: str, write: dict[str, str] | None = None) -> Path:
    """One session on a machine with a cache of its own; the study's folder there."""
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / cache))
    stored = RemoteStudy(address(tmp_path), "s", print)
    with Folder(stored.path).locked(), stored.kept():
        for name, text in (write or {}).items():
            write_whole(stored.path / name, text)
    return stored.path


def test_buckets_of_one_name_at_two_endpoints_have_two_local_folders(cache, monkeypatch):
    # No network: pyarrow asks Amazon for a bucket's region where none is given.
    monkeypatch.setattr(
        "study.storage.object_store._opened", lambda address: (fs.LocalFileSystem(), "/x")
    )

    def local(address: str) -> Path:
        return RemoteStudy(address, "s", print).path

    plain = local("s3://bucket/x")
    one, two = (local(f"s3://bucket/x?endpoint_override={host}:9000") for host in ("one", "two"))
    assert len({plain, one, two, local("s3://bucket/x?region=eu-west-1")}) == 4
    # The same place, however it is written and reached.
    assert local("s3://bucket/x/") == plain
    assert local("s3://bucket/x?scheme=http&endpoint_override=one%3A9000") == one
    more = "allow_bucket_creation=true&scheme=http"
    assert local(f"s3://bucket/x?{more}&endpoint_override=two:9000") == two


def test_a_study_moves_between_machines_and_stale_copies_are_put_aside(
    tmp_path, monkeypatch, brisk
):
    first = kept(tmp_path, monkeypatch, "one", {"study.yaml": "d", "runs/search/a/0.json": "1"})
    kept(tmp_path, monkeypatch, "two", {"runs/search/a/1.json": "2"})
    (first / "runs" / "search" / "a" / "9.json").write_text("never copied, and superseded")
    assert kept(tmp_path, monkeypatch, "one") == first
    found = tree(first)
    assert found["runs/search/a/0.json"] == b"1"
    assert found["runs/search/a/1.json"] == b"2"
    assert "runs/search/a/9.json" not in found
    aside = first.with_name("s.aside-1")
    assert (aside / "runs" / "search" / "a" / "9.json").exists()


def test_what_a_crash_kept_from_the_store_is_not_lost_on_the_same_machine(
    tmp_path, monkeypatch, brisk
):
    first = kept(tmp_path, monkeypatch, "one", {"study.yaml": "d"})
    (first / "late.json").write_text("written after the last copy")
    assert kept(tmp_path, monkeypatch, "one") == first
    assert Store(address(tmp_path), "s").read("late.json") == b"written after the last copy"


def test_a_fetch_that_did_not_end_is_begun_again(tmp_path, monkeypatch, brisk):
    kept(tmp_path, monkeypatch, "one", {"study.yaml": "d", "winners.json": "{}"})
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "two"))
    stored = RemoteStudy(address(tmp_path), "s", print)
    write_whole(stored.path / "fetching" / "half", "x")
    write_whole(stored.path / "winners.json", "half")
    found = tree(kept(tmp_path, monkeypatch, "two"))
    assert found["winners.json"] == b"{}"
    assert not any(name.startswith("fetching") for name in found)


def test_who_fetches_for_long_gives_signs_of_life_and_none_after_a_failure(
    tmp_path, monkeypatch, brisk
):
    kept(tmp_path, monkeypatch, "one", {"study.yaml": "d"})
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "two"))
    stored = RemoteStudy(address(tmp_path), "s", print)
    signs: set[bytes] = set()

    def slow(store: Store, folder: Path) -> None:
        until(lambda: len(signs.add(store.read(SIGN)) or signs) > 2)
        other = DriverLease(Store(address(tmp_path), "s"), tmp_path / "third")
        with pytest.raises(StudyError, match="is being run by process"):
            other.wait_for_others(lambda text: None)
        raise StoreError("the line is cut")

    monkeypatch.setattr("study.storage.remote_study.fetch", slow)
    with (
        pytest.raises(StudyError, match="the line is cut"),
        Folder(stored.path).locked(),
        stored.kept(),
    ):
        pytest.fail("began with half a study")
    assert json.loads(stored.store.read(SIGN))["ended"]
    assert "sign of life" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.slow
def test_a_session_that_could_not_copy_everything_ends_as_paused(tmp_path, monkeypatch, brisk):
    monkeypatch.setattr("study.storage.remote_study.WAIT_AT_END_S", 1.0)
    stored = RemoteStudy(address(tmp_path), "s", print)
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "one"))

    def broken(*args) -> None:
        raise StoreError("no route to host")

    def session() -> None:
        with Folder(stored.path).locked(), stored.kept():
            write_whole(stored.path / "study.yaml", "d")
            monkeypatch.setattr(stored.store, "copy", broken)

    with pytest.raises(Paused, match="not all of them in"):
        session()


@pytest.mark.slow
def test_a_study_that_never_began_leaves_nothing_in_the_store(tmp_path, cache, brisk):
    stored = RemoteStudy(address(tmp_path), "s", print)
    with Folder(stored.path).locked(), stored.kept():
        write_whole(stored.path / "study.yaml", "d")
        until(lambda: stored.store.holds("study.yaml"))
        stored.forget()
    assert tree(tmp_path / "bucket") == {}


def test_a_name_that_is_taken_in_the_store_is_refused(tmp_path, cache):
    store = Store(address(tmp_path), "s")
    for name in ("study.yaml", "winners.json"):
        store.write(name, b"x")
    Store(address(tmp_path), "s-2").write("study.yaml", b"x")
    with pytest.raises(StudyError) as told:
        RemoteStudy(address(tmp_path), "s", print).refuse_existing(
            command="run it", named="run it --name s"
        )
    assert "in its confirmation phase" in str(told.value)
    assert "run it --name s --resume" in str(told.value)
    assert "--name s-3" in str(told.value)


def test_an_earlier_study_that_is_not_at_the_address_is_told_with_those_that_are(tmp_path, capsys):
    smoke = str(Path(__file__).parents[3] / "search_spaces" / "smoke.yaml")
    command = [smoke, "--dry-run", "--storage", address(tmp_path), "--pilot", "wrong"]
    assert main(command) == 2
    assert "allowed: the name of a study there: none\n" in capsys.readouterr().err
    for name in ("one", "two"):
        Store(address(tmp_path), name).write("study.yaml", b"x")
    Store(address(tmp_path), "no-study").write("notes.txt", b"x")
    assert main(command) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"there is no study in {address(tmp_path)}/wrong\n")
    assert "allowed: the name of a study there: one, two\n" in told


def test_a_report_of_an_address_is_refused_with_the_way(tmp_path, capsys):
    from study.report import main as report

    assert report(["s", "--storage", address(tmp_path)]) == 2
    assert "--resume" in capsys.readouterr().err


def until(true, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
