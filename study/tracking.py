"""How do a study's phases, trials and runs get into MLflow without slowing or endangering them?

Only the driver writes, from one thread, and never twice: runs are found again by a tag, so a
resumed study goes on in the same MLflow runs. A tracking server that fails costs a warning.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from study.job import Job, Record
from study.ledger import Ending

KEY_TAG = "study.key"
LOCAL_UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens unless told otherwise
FLUSH_EVERY_S = 10.0
_STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}
_VALUE_LIMIT = 500  # characters of a parameter shown in the UI


def tracking_uri() -> str:
    """The user's tracking server, or `mlflow.db` in the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"


def browse_url() -> str | None:
    """Where the MLflow UI is, without any password; None if that cannot be known.

    A database has none of its own: it is shown where the line of `browse_command` serves it.
    """
    parts = urlsplit(tracking_uri())
    if parts.scheme in ("http", "https"):
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return LOCAL_UI if parts.scheme in ("sqlite", "postgresql", "mysql", "mssql", "file") else None


def browse_command() -> str:
    """The line that opens what was logged in a browser."""
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        return f"open {browse_url()}"
    local = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    shown = "sqlite:///mlflow.db" if uri == local else uri
    # Without these it starts job workers that take 1.7 GB and outlive it.
    lean = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false mlflow ui --workers 1"
    return f"{lean} --backend-store-uri {shown}"


class Tracker:
    """A monitor that mirrors a study into one MLflow experiment.

    Args:
        name: of the study and of the experiment.
        tags: of the parent runs: question, hash and the like.
        warn: called once with a text if MLflow cannot be written.
    """

    def __init__(self, name: str, *, tags: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._name, self._tags, self._warn = name, dict(tags), warn
        self._queue: queue.SimpleQueue[Callable[[_Sink], None] | None] = queue.SimpleQueue()
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
            sink = _Sink(self._name, self._tags, self._ids)
            self._place |= sink.place()
            self._drain(sink)
        except Exception as error:  # the study must not end because its mirror broke
            self._warn(f"MLflow cannot be written ({_short(error)}); the study goes on without it")
            self._failed.set()  # before what waits for the queue could wait for ever
            self._discard()

    def _drain(self, sink: _Sink) -> None:
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


class _Sink:
    """MLflow's client, and what has been written so far. Lives in the tracker's thread."""

    def __init__(self, name: str, tags: dict[str, str], ids: dict[str, str]) -> None:
        # Imported here, in the tracker's thread: it takes seconds that Ray's start can use.
        import mlflow
        from mlflow.entities import Metric, Param, RunTag

        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        mlflow.set_tracking_uri(tracking_uri())
        self._Metric, self._Param, self._RunTag = Metric, Param, RunTag
        self._tags, self._ids = tags, ids
        with _alone():
            self._client = mlflow.MlflowClient()
            self._experiment = self._open_experiment(name)
        self._pending: dict[str, list[Any]] = {}
        self._logged: dict[str, int] = {}  # last epoch written, by key
        self._names: dict[str, set[str]] = {}  # metrics written, by key
        self._find_runs()

    def _open_experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self._client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        local = tracking_uri().startswith("sqlite:")
        place = (Path.cwd() / "mlruns" / name).as_uri() if local else None
        kind = {"mlflow.experimentKind": "custom_model_development"}  # opens on trainings
        return str(self._client.create_experiment(name, artifact_location=place, tags=kind))

    def _find_runs(self) -> None:
        token: str | None = ""
        while token is not None:
            page = self._client.search_runs([self._experiment], max_results=1000,
                                            page_token=token or None)  # fmt: skip
            for run in page:
                key = run.data.tags.get(KEY_TAG)
                # A study of the same name in another folder has runs of its own.
                if key and run.data.tags.get("study.id") == self._tags["study.id"]:
                    self._ids[key] = run.info.run_id
                    self._names[key] = set(run.data.metrics)
                    if "views" in run.data.metrics:
                        history = self._client.get_metric_history(run.info.run_id, "views")
                        self._logged[key] = max(point.step for point in history)
            token = page.token or None

    def place(self) -> dict[str, str]:
        url = browse_url()
        # A database's address may hold a password: of those only a file's is repeated.
        command = browse_command() if tracking_uri().startswith("sqlite:") else None
        found = {"experiment": self._experiment, "url": url, "command": command}
        return {name: value for name, value in found.items() if value}

    def phase(self, phase: str, params: Mapping[str, Any], *, done: bool) -> None:
        run_id = self._run(phase, phase, parent=None, params=params)
        if done:
            self._client.set_terminated(run_id, "FINISHED")

    def open(self, job: Job) -> None:
        condition = f" · {job.condition} · seed {job.seed}"
        name = job.arm + (f" · trial {job.number}" if job.phase == "search" else condition)
        fixed = {"phase": job.phase, "arm": job.arm, "condition": job.condition, "seed": job.seed}
        parent = self._ids.get(job.phase)
        run_id = self._run(job.key, name, parent=parent, params=fixed | job.config)
        self._client.update_run(run_id, status="RUNNING")

    def add(self, key: str, records: Sequence[Record]) -> None:
        last = self._logged.get(key, -1)
        for record in records:
            if record.epoch > last:
                self._add(key, record.epoch, record.metrics)
                self._logged[key] = record.epoch

    def _add(self, key: str, epoch: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._pending.setdefault(key, []).extend(
            self._Metric(name, value, now, epoch) for name, value in metrics.items()
        )
        self._names.setdefault(key, set()).update(metrics)

    def end(self, ending: Ending) -> None:
        key = ending.job.key
        if ending.records:
            # A training restarted under a budget of seconds may end at an epoch that is written
            # already: its final figures are not.
            last, names = ending.records[-1], self._names.get(key, set())
            self._add(key, last.epoch, {n: v for n, v in last.metrics.items() if n not in names})
        self._write(key)
        self._client.set_tag(self._ids[key], "outcome", ending.outcome)
        if ending.failure:
            self._client.set_tag(self._ids[key], "failure", ending.failure[-4000:])
        if ending.job.retried:
            self._client.set_tag(self._ids[key], "retried", ending.job.retried)
        self._client.set_terminated(self._ids[key], _STATUS[ending.outcome])

    def backfill(self, ending: Ending) -> None:
        key = ending.job.key
        if key in self._ids and self._client.get_run(self._ids[key]).data.tags.get("outcome"):
            return
        self.open(ending.job)
        self.add(key, ending.records)
        self.end(ending)

    def tag(self, phase: str, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self._client.set_tag(self._ids[phase], name, value)

    def artifacts(self, phase: str, path: Path, below: str | None) -> None:
        if path.is_dir():
            self._client.log_artifacts(self._ids[phase], str(path), below)
        else:
            self._client.log_artifact(self._ids[phase], str(path), below)

    def flush(self) -> None:
        for key in list(self._pending):
            self._write(key)

    def _write(self, key: str) -> None:
        metrics = self._pending.pop(key, [])
        for start in range(0, len(metrics), 1000):  # the server's limit for a batch
            self._client.log_batch(self._ids[key], metrics=metrics[start : start + 1000])

    def _run(self, key: str, name: str, *, parent: str | None, params: Mapping[str, Any]) -> str:
        if key in self._ids:
            return self._ids[key]
        tags = self._tags | {KEY_TAG: key, "mlflow.runName": name}
        if parent:
            tags["mlflow.parentRunId"] = parent
        run = self._client.create_run(self._experiment, run_name=name, tags=tags)
        self._ids[key] = run.info.run_id
        values = [self._Param(k, str(v)[:_VALUE_LIMIT]) for k, v in params.items()]
        self._client.log_batch(run.info.run_id, params=values)
        return self._ids[key]


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process at a time in this folder: two that create `mlflow.db` at once break it."""
    if not tracking_uri().startswith("sqlite:"):
        yield
        return
    folder = os.open(Path.cwd(), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
