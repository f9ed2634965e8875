"""The tracker: mirrors a study's phases, trials and runs into MLflow without slowing them.

Only the driver writes, from one thread, and never twice: runs are found again by a tag, so a
resumed study continues in the same MLflow runs. A tracking server that fails costs a warning.
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
        self._queue: queue.SimpleQueue[Callable[[MlflowWriter], None] | None] = queue.SimpleQueue()
        self._ids: dict[str, str] = {}
        self._place: dict[str, str] = {}
        self._failed = threading.Event()
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
        self._queue.put(lambda sink: sink.end(ending))

    def backfill(self, endings: Iterable[Ending]) -> None:
        """Write what an earlier driver did not live to write."""
        for ending in endings:
            self._queue.put(lambda sink, ending=ending: sink.backfill(ending))

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
        """Wait until all is written; the MLflow run ids by job key (and by phase)."""
        done = threading.Event()
        self._queue.put(lambda sink: (sink.flush(), done.set())[0])
        while self._thread.is_alive() and not self._failed.is_set() and not done.wait(0.1):
            pass
        return dict(self._ids)

    def place(self) -> dict[str, str]:
        """Where the runs can be browsed: `experiment` and, if known, `url` and `command`.

        Empty until MLflow has been opened, which `flush` waits for.
        """
        return dict(self._place)

    def close(self) -> None:
        """Write what is left and end the thread."""
        self._queue.put(None)
        self._thread.join(timeout=120)

    def _work(self) -> None:
        try:
            sink = MlflowWriter(self._name, self._tags, self._ids, self._applies)
            self._place |= sink.place()
            self._drain(sink)
        except Exception as error:  # the study must not end because its mirror broke
            self._warn(
                f"MLflow cannot be written ({first_line(error)}); the study continues without it"
            )
            self._failed.set()  # before what waits for the queue could wait forever
            self._discard()

    def _drain(self, sink: MlflowWriter) -> None:
        due = time.monotonic() + FLUSH_EVERY_S
        while True:
            try:
                item = self._queue.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                sink.flush()
                due = time.monotonic() + FLUSH_EVERY_S
                continue
            if item is None:
                sink.flush()
                return
            item(sink)

    def _discard(self) -> None:
        while self._queue.get() is not None:
            pass
