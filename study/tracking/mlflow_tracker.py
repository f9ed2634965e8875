"""The tracker: mirrors a study's phases, trials and runs into MLflow without slowing them.

Only the driver writes, from one thread, and never twice: runs are found again by a tag, so a
resumed study continues in the same MLflow runs. A tracking server that fails, hangs or is slow
costs a warning and a few seconds of waiting, and is tried again; whatever it lacks at the end is
sent by the next start, from the study's own records.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from study.errors import first_line
from study.records import Ending, Job, Record
from study.tracking.mlflow_writer import Applies, MlflowWriter

FLUSH_EVERY_S = 10.0
PATIENCE_S = 10.0  # that a study waits for MLflow, all its waiting together
TICK_S = 0.1
RETRY_AFTER_S, RETRY_AT_MOST_S = 5.0, 60.0


class Tracker:
    """A monitor that mirrors a study into one MLflow experiment.

    Args:
        name: of the study and of the experiment.
        tags: of the parent runs: question, hash and the like.
        warn: called once with a text if MLflow cannot be written.
        applies: whether a setting counts, given the others; those that do not are not shown.
    """

    def __init__(
        self,
        name: str,
        *,
        tags: Mapping[str, str],
        warn: Callable[[str], None],
        applies: Applies = lambda name, settings: True,
    ) -> None:
        self._name, self._tags, self._warn, self._applies = name, dict(tags), warn, applies
        self._queue: queue.SimpleQueue[Callable[[MlflowWriter], None]] = queue.SimpleQueue()
        self._ids: dict[str, str] = {}
        self._place: dict[str, str] = {}
        self._unsent: set[str] = set()  # trainings that have ended
        self._failing, self._closing = threading.Event(), threading.Event()
        self._patience = PATIENCE_S
        self._due = time.monotonic() + FLUSH_EVERY_S
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def on_start(self, job: Job) -> None:
        """Open the job's run below its phase's."""
        self._queue.put(lambda sink: sink.open(job))

    def on_records(self, job: Job, records: Sequence[Record]) -> None:
        """Log the epochs."""
        self._queue.put(lambda sink: sink.add(job.key, records))

    def on_end(self, ending: Ending) -> None:
        """Close the run."""
        self._send(ending, lambda sink: sink.end(ending))

    def backfill(self, endings: Iterable[Ending]) -> None:
        """Write what an earlier driver did not live to write."""
        for ending in endings:
            self._send(ending, lambda sink, ending=ending: sink.backfill(ending))

    def _send(self, ending: Ending, write: Callable[[MlflowWriter], None]) -> None:
        key = ending.job.key
        self._unsent.add(key)
        self._queue.put(lambda sink: (write(sink), self._unsent.discard(key))[0])

    def phase(self, phase: str, *, params: Mapping[str, Any], done: bool = False) -> None:
        """Open or close the parent run of a phase."""
        self._queue.put(lambda sink: sink.phase(phase, params, done=done))

    def artifacts(self, phase: str, folder: Path, below: str | None = None) -> None:
        """Log a folder, or a file, to the parent run of a phase."""
        self._queue.put(lambda sink: sink.artifacts(phase, folder, below))

    def tag(self, phase: str, tags: Mapping[str, str]) -> None:
        """Set tags on the parent run of a phase: the verdicts, for one."""
        self._queue.put(lambda sink: sink.tag(phase, tags))

    def figures(self, phase: str, figures: Mapping[str, float]) -> None:
        """Log figures of a whole phase to its parent run: means of arms, for one."""
        self._queue.put(lambda sink: sink.figures(phase, figures))

    def flush(self) -> dict[str, str]:
        """Wait until all is written, within the patience; MLflow run ids by job key (and phase)."""
        done = threading.Event()
        self._queue.put(lambda sink: (sink.flush(), done.set())[0])
        while self._patience > 0 and not self._failing.is_set() and not done.wait(TICK_S):
            self._patience -= TICK_S
        if done.is_set():
            self._patience = PATIENCE_S
        return dict(self._ids)

    def place(self) -> dict[str, str]:
        """Where the runs can be browsed: `experiment` and, if known, `url` and `command`.

        Empty until MLflow has been opened, which `flush` waits for.
        """
        return dict(self._place)

    def close(self) -> None:
        """Write what is left, within the patience; say what is missing, and who will send it."""
        self._closing.set()
        self._queue.put(_last)
        while self._patience > 0 and self._thread.is_alive():
            self._thread.join(TICK_S)
            self._patience -= TICK_S
        if self._thread.is_alive() or self._failing.is_set():
            count = len(self._unsent)
            what = f"{count} training{'s' * (count > 1)}" if count else "the last figures"
            why = "cannot be written" if self._failing.is_set() else "did not answer in time"
            self._warn(
                f"MLflow lacks {what}, which the study itself has: it {why}; the command with "
                "--resume sends what is missing"
            )

    def _work(self) -> None:
        sink: MlflowWriter | None = None
        item: Callable[[MlflowWriter], None] | None = None
        pause = RETRY_AFTER_S
        while True:
            try:
                if sink is None:
                    sink = MlflowWriter(self._name, self._tags, self._ids, self._applies)
                    self._place |= sink.place()
                elif self._failing.is_set():
                    sink.find_runs()  # whether the last call was carried out is not known
                item = item or self._next(sink)
                item(sink)
                if item is _last:
                    self._failing.clear()
                    return
                item = None
                if self._failing.is_set():
                    self._failing.clear()
                    self._warn("MLflow can be written again")
                pause = RETRY_AFTER_S
            except Exception as error:  # the study must not end because its mirror broke
                if not self._failing.is_set():
                    self._failing.set()
                    self._warn(
                        f"MLflow cannot be written ({first_line(error)}); the study continues and "
                        "tries again from time to time"
                    )
                if self._closing.wait(pause):
                    if self._patience <= 0:
                        return
                    time.sleep(TICK_S)
                pause = min(2 * pause, RETRY_AT_MOST_S)

    def _next(self, sink: MlflowWriter) -> Callable[[MlflowWriter], None]:
        """What is to be written next."""
        while True:
            try:
                return self._queue.get(timeout=max(0.0, self._due - time.monotonic()))
            except queue.Empty:
                sink.flush()
                self._due = time.monotonic() + FLUSH_EVERY_S


def _last(sink: MlflowWriter) -> None:
    """After all else; the thread ends."""
    sink.flush()
