"""Is a process that waits for something dead woken, or ended where it cannot be woken?"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import study
from study.errors import Paused
from study.execution import watchdog
from study.execution.watchdog import watching

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
