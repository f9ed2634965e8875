"""Is a process that waits for something dead woken, or ended where it cannot be woken?"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import study
from study.errors import Paused
from study.execution import watchdog
from study.execution.watchdog import Patience, watching

DEAD = Paused("it died")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(watchdog, "EVERY_S", 0.05)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def broken() -> bool:
    raise ConnectionError("nobody answers")


def test_a_block_that_ends_in_time_is_left_alone():
    with watching(lambda: True, DEAD):
        time.sleep(0.2)


@pytest.mark.parametrize("alive", [lambda: False, broken])
def test_a_block_that_waits_for_the_dead_is_interrupted(alive):
    with pytest.raises(Paused, match="it died"), watching(alive, DEAD):
        time.sleep(60)


def answers(*given: bool | None):
    """Answers with these, None being an error, then says yes; and how often it was asked."""
    left, asked = list(given), []

    def alive() -> bool:
        asked.append(1)
        found = left.pop(0) if left else True
        return broken() if found is None else found

    return alive, asked


def test_errors_now_and_then_leave_a_block_alone():
    alive, asked = answers(None, None, True, None, None, True)
    deadline = time.monotonic() + 20
    with watching(alive, DEAD):
        while len(asked) < 8 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert len(asked) >= 8


@pytest.mark.parametrize(("given", "times"), [([True, False], 2), ([None, True, *[None] * 3], 5)])
def test_one_no_is_enough_and_of_errors_three_in_a_row(given, times):
    alive, asked = answers(*given)
    with pytest.raises(Paused, match="it died"), watching(alive, DEAD):
        time.sleep(60)
    assert len(asked) == times


def test_an_interruption_by_the_user_stays_one():
    with pytest.raises(KeyboardInterrupt), watching(lambda: True, DEAD):
        raise KeyboardInterrupt


def test_a_call_that_hears_no_signal_is_ended_with_the_process():
    code = """
import signal, time
from study.execution import watchdog
from study.errors import Paused
watchdog.EVERY_S = watchdog.END_AFTER_S = 0.1
signal.signal(signal.SIGINT, signal.SIG_IGN)
with watchdog.watching(lambda: False, Paused("it died\\n  try: --resume")):
    time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(study.__file__).parents[1], capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "\nthe study pauses: it died\n  try: --resume\n"


@pytest.fixture
def clock(monkeypatch) -> Callable[[float], None]:
    """Lets so many seconds pass, in steps of the loop of half a second."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def passes(seconds: float, *patient: Patience) -> None:
        for _ in range(round(2 * seconds)):
            now[0] += 0.5
            for patience in patient:
                patience.tick()

    passes.now = now
    return passes


def trained(
    clock, patience: Patience, *, first=9.0, epoch=4.0, closing=20.0, phase="search", arm="x"
):
    """One training of four epochs from beginning to end."""
    patience.started("one", arm, phase, 4)
    clock(first, patience)
    patience.heard("one", 1, ended=False)
    for number in (2, 3):
        clock(epoch, patience)
        patience.heard("one", number, ended=False)
    clock(closing, patience)
    patience.heard("one", 4, ended=True)
    assert patience.overdue() == []


def silence_until_overdue(clock, patience: Patience, at_most: float = 2000) -> float | None:
    for waited in range(round(at_most)):
        if patience.overdue():
            return waited
        clock(1, patience)
    return None


def test_nothing_is_given_up_before_anything_is_known(clock):
    patience = Patience()
    patience.started("a", "x", "search", 4)
    assert silence_until_overdue(clock, patience) is None


@pytest.mark.parametrize("arm", ["x", "y"])
@pytest.mark.parametrize(
    ("reported", "phase", "taken", "own"),
    [
        ([], "search", 9, 0),  # what others took to their first report
        ([1], "search", 4, 0),  # the same for its second epoch
        ([1, 2], "search", None, 6),  # its own longest
        ([1, 2, 3], "search", 20, 6),  # the evaluation after the last epoch
        ([1, 2, 3], "confirm", None, None),  # where the test split is read: none has been seen
    ],
)
def test_the_limit_is_what_is_known_to_be_long(clock, reported, phase, taken, own, arm):
    """Three times that, or ten times where only trainings of another arm were seen; a minute."""
    patience = Patience()
    trained(clock, patience)
    patience.started("a", arm, phase, 4)
    for epoch in reported:
        clock(6, patience)
        patience.heard("a", epoch, ended=False)
    found = silence_until_overdue(clock, patience)
    if taken is None and own is None:
        assert found is None
        return
    limit = 3 * own if taken is None else (3 if arm == "x" else 10) * taken
    assert limit + 60 < found <= limit + 61


def test_of_several_trainings_of_an_arm_the_slowest_counts(clock):
    patience = Patience()
    trained(clock, patience, first=2)
    trained(clock, patience, first=30)
    trained(clock, patience, first=300, arm="y")
    patience.started("a", "x", "search", 4)
    assert 150 < silence_until_overdue(clock, patience) <= 151


def test_each_time_the_limit_doubles(clock):
    patience = Patience(30)
    patience.started("a", "x", "search", 4)
    assert [silence_until_overdue(clock, patience) for _ in range(3)] == [31, 61, 121]


def test_without_limit_none_is_given_up(clock):
    patience = Patience("none")
    trained(clock, patience)
    patience.started("a", "x", "search", 4)
    assert silence_until_overdue(clock, patience) is None


def test_a_loop_that_stands_still_blames_nobody(clock):
    """A disk that blocks the driver, a laptop that sleeps."""
    patience = Patience(30)
    patience.started("a", "x", "search", 4)
    clock(20, patience)
    clock.now[0] += 3600
    patience.tick()
    assert patience.overdue() == []


def test_a_training_without_a_planned_end_may_evaluate_after_any_epoch(clock):
    patience = Patience()
    patience.started("one", "x", "search", None)
    for epoch in (1, 2, 3):
        clock(50 if epoch == 3 else 2, patience)
        patience.heard("one", epoch, ended=epoch == 3)
    patience.started("a", "x", "search", None)
    clock(2, patience)
    patience.heard("a", 1, ended=False)
    assert silence_until_overdue(clock, patience) > 3 * 50 + 60


def test_an_ended_training_is_not_waited_for(clock):
    patience = Patience(30)
    patience.started("a", "x", "search", 4)
    patience.ended("a")
    assert silence_until_overdue(clock, patience) is None
