"""Progress of a phase in the terminal: a table that stays in place, or plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from study.records import Ending, Job, Record

PLAIN_EVERY_S = 15.0


@dataclass
class _Arm:
    planned: int
    running: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    trials: list[float] = field(default_factory=list)  # of those that may win
    runs: list[float] = field(default_factory=list)  # of the confirmation

    @property
    def done(self) -> int:
        return sum(self.ended.values())


class Display:
    """A monitor that shows, per arm: done, running, stopped, failed, scores so far; and time left.

    The scores are the best of the trials that may win, as the search judges them, and the mean of
    the confirmation's runs.

    In a terminal one table that stays in place; elsewhere a plain line now and then.

    Args:
        phase: its title.
        planned: jobs of each arm, those of earlier sessions included.
        metric: of which scores are shown; `better` says which way it is.
        judge: the score of a trial, None where it cannot win; by default the metric's last value.
        console: where to.
        clock: seconds; for tests.
    """

    def __init__(
        self,
        phase: str,
        planned: Mapping[str, int],
        *,
        metric: str,
        better: str = "higher",
        judge: Callable[[Ending], float | None] | None = None,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._phase, self._metric, self._console, self._clock = phase, metric, console, clock
        self._best = min if better == "lower" else max
        self._judge = judge or (lambda ending: ending.last(metric))
        self._arms = {arm: _Arm(count) for arm, count in planned.items()}
        self._started, self._spoken, self._ended_here = clock(), clock(), 0
        self._within: dict[str, float] = {}  # share of each running job that is done
        self._live: Live | None = None

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self.render, console=self._console, refresh_per_second=2
            )
            self._live.start()
        else:
            total = sum(arm.planned for arm in self._arms.values())
            self._console.print(
                f"{self._phase}: {total} runs, {len(self._arms)} arms", markup=False
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
        else:
            self._say()

    def earlier(self, ending: Ending) -> None:
        """Count a job that ended in an earlier session."""
        self._count(ending)

    def on_start(self, job: Job) -> None:
        """One more is running."""
        self._arms[job.arm].running += 1

    def on_records(self, job: Job, records: Sequence[Record]) -> None:
        """Note how far it is."""
        if records and job.planned_epochs:
            self._within[job.key] = records[-1].epoch / job.planned_epochs
        if not self._live and self._clock() - self._spoken > PLAIN_EVERY_S:
            self._say()

    def on_end(self, ending: Ending) -> None:
        """One fewer is running."""
        self._arms[ending.job.arm].running -= 1
        self._ended_here += 1
        self._within.pop(ending.job.key, None)
        self._count(ending)

    def _count(self, ending: Ending) -> None:
        arm = self._arms[ending.job.arm]
        arm.ended[ending.outcome] = arm.ended.get(ending.outcome, 0) + 1
        if ending.outcome == "finished" and ending.job.phase != "recheck":
            confirmed = ending.job.phase == "confirm"
            score = ending.last(self._metric) if confirmed else self._judge(ending)
            if score is not None:
                (arm.runs if confirmed else arm.trials).append(score)

    def _scores(self, arm: _Arm) -> tuple[str | None, str | None]:
        """The best trial and the mean of the runs, where there are any."""
        return (
            f"{self._best(arm.trials):.3f}" if arm.trials else None,
            f"{fmean(arm.runs):.3f}" if arm.runs else None,
        )

    def render(self) -> RenderableType:
        """The table as it stands now."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("arm")
        table.add_column("", width=22)
        titles = ["done", "running", "stopped", "failed"]
        scores = {name: self._scores(arm) for name, arm in self._arms.items()}
        shown = [i for i in (0, 1) if any(score[i] for score in scores.values())]
        titles += [("best trial", "mean of runs")[i] for i in shown]
        for title in titles:
            table.add_column(title, justify="right")
        for name, arm in self._arms.items():
            failed = arm.ended.get("failed", 0) + arm.ended.get("diverged", 0)
            table.add_row(
                Text(name),
                ProgressBar(total=max(1, arm.planned), completed=arm.done, width=20),
                f"{arm.done}/{arm.planned}",
                str(arm.running or "·"),
                str(arm.ended.get("stopped") or "·"),
                Text(str(failed or "·"), style="bold red" if failed else ""),
                *[scores[name][i] or "·" for i in shown],
            )
        metric = f"   {self._metric}" if shown else ""
        title = Text(f"{self._phase}   {self._timing()}{metric}", style="bold")
        return Group(title, table, Text(""))

    def _say(self) -> None:
        self._spoken = self._clock()
        parts = []
        for name, arm in self._arms.items():
            notes = [f"{n} {what}" for what, n in arm.ended.items() if what != "finished"]
            best, mean = self._scores(arm)
            parts.append(
                f"{name} {arm.done}/{arm.planned}"
                + (f" ({', '.join(notes)})" if notes else "")
                + (f", best trial {best}" if best else "")
                + (f", mean of runs {mean}" if mean else "")
            )
        line = f"{self._phase}: {' | '.join(parts)} | {self._timing()}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _timing(self) -> str:
        elapsed = self._clock() - self._started
        left = sum(arm.planned - arm.done for arm in self._arms.values())
        if not left:
            return f"{duration(elapsed)}, complete"
        done = self._ended_here + sum(self._within.values())
        if done < 0.5:  # too little to judge by
            return f"{duration(elapsed)} so far"
        rest = max(0.0, left - sum(self._within.values()))
        return f"{duration(elapsed)} so far, about {duration(elapsed / done * rest)} left"


def duration(seconds: float) -> str:
    """Seconds as people say them: 42 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
