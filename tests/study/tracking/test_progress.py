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
    """Of trials that were stopped or broke down, and of untrained models, nothing is a best."""
    curve = (record(0, 0.9), record(1, 0.2), record(4, 0.3))
    display.earlier(Ending(job("a", 0), "finished", curve))
    for number, (value, outcome) in enumerate([(0.5, "stopped"), (0.7, "diverged")], 1):
        display.on_start(job("a", number))
        display.on_records(job("a", number), [record(1, value)])
        display.on_end(Ending(job("a", number), outcome, (record(1, value),)))
    display.on_start(job("b", 0))
    display.on_records(job("b", 0), [record(2, 0.25)])
    clock.now += 50


def test_the_table_counts_done_running_stopped_failed_and_best():
    text = shown(True, some)
    a = next(line.split() for line in text.splitlines() if line.startswith("a "))
    b = next(line.split() for line in text.splitlines() if line.startswith("b "))
    assert a[-5:] == ["3/3", "·", "1", "1", "0.300"]
    assert b[-5:] == ["0/3", "1", "·", "·", "·"]


def finished(display: Display, clock: Clock) -> None:
    for number, value in enumerate((0.25, 0.5)):
        display.earlier(Ending(job("a", number), "finished", (record(4, value),)))
        run = Job("confirm", "b", "clean", number, None, {"epochs": 4}, "", "")
        display.earlier(Ending(run, "finished", (record(1, 0.9), record(4, value))))


@pytest.mark.parametrize(("better", "best"), [("higher", "0.500"), ("lower", "0.250")])
def test_of_trials_the_best_is_shown_and_of_runs_the_mean(better, best):
    text = shown(False, finished, better=better)
    assert f"a 2/3, best trial {best} | b 2/3, mean of runs 0.375" in text
    text = shown(True, finished, better=better)
    assert text.splitlines()[1].endswith("best trial  mean of runs")


def test_a_trial_is_shown_as_the_search_judges_it():
    text = shown(False, finished, judge=lambda ending: 0.125)
    assert "a 2/3, best trial 0.125" in text


def test_time_left_counts_what_running_jobs_have_done():
    # 50 s for two and a half jobs, two and a half left.
    assert "50 s so far, about 50 s left" in shown(True, some)


def test_without_a_terminal_there_are_plain_lines():
    text = shown(False, some)
    assert "a 3/3 (1 stopped, 1 diverged), best trial 0.300 | b 0/3 |" in text
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
