"""Does the display count right, in a terminal and without one?"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from study.records.job import Job, Record
from study.records.ledger import Ending
from study.tracking.progress import Display, duration

METRIC = "val/knn_top1"


def job(arm: str, number: int) -> Job:
    return Job("search", arm, "clean", 0, number, {"epochs": 4}, "x.pt", "")


def record(epoch: int, value: float) -> Record:
    return Record(epoch, {METRIC: value}, {})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(terminal: bool, act, **options) -> str:
    out, clock = io.StringIO(), Clock()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    planned = {"a": 3, "b": 3}
    display = Display("search", planned, metric=METRIC, console=console, clock=clock, **options)
    act(display, clock)
    if terminal:
        console.print(display.render())
    else:
        display._say()
    return out.getvalue()


def some(display: Display, clock: Clock) -> None:
    display.earlier(Ending(job("a", 0), "finished", ()))
    for number, (value, outcome) in enumerate([(0.5, "stopped"), (0.7, "diverged")], 1):
        display.on_start(job("a", number))
        display.on_records(job("a", number), [record(1, value)])
        display.on_end(Ending(job("a", number), outcome, ()))
    display.on_start(job("b", 0))
    display.on_records(job("b", 0), [record(2, 0.25)])
    clock.now += 50


def test_the_table_counts_done_running_stopped_failed_and_best():
    text = shown(True, some)
    a = next(line.split() for line in text.splitlines() if line.startswith("a "))
    b = next(line.split() for line in text.splitlines() if line.startswith("b "))
    assert a[-5:] == ["3/3", "·", "1", "1", "0.700"]
    assert b[-5:] == ["0/3", "1", "·", "·", "0.250"]


def test_the_best_of_a_metric_that_is_better_when_lower_is_the_smallest():
    text = shown(False, some, better="lower")
    assert "a 3/3 (1 stopped, 1 diverged), best 0.500 | b 0/3, best 0.250" in text


def test_time_left_counts_what_running_jobs_have_done():
    # 50 s for two and a half jobs, two and a half left.
    assert "50 s so far, about 50 s left" in shown(True, some)


def test_without_a_terminal_there_are_plain_lines():
    text = shown(False, some)
    assert "a 3/3 (1 stopped, 1 diverged), best 0.700 | b 0/3, best 0.250" in text
    assert "\x1b" not in text


def test_names_are_not_taken_for_markup():
    out = io.StringIO()
    console = Console(file=out, force_terminal=False, width=200)
    with Display("search", {"[red]": 1}, metric=METRIC, console=console):
        pass
    assert "[red] 0/1" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations_as_people_say_them(seconds: float, text: str):
    assert duration(seconds) == text
