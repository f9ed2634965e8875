"""The writer of MLflow runs, in the tracker's thread."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from analysis.inputs import DEFAULT_CONDITION
from study.records import Ending, Job, Record
from study.tracking.mlflow_address import browse_command, browse_url, tracking_uri

KEY_TAG = "study.key"
_STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}
_BATCH = 1000  # metrics, the server's limit
_VALUE_LIMIT = 500  # characters of a parameter shown in the UI
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]", re.ASCII)  # of metrics

Applies = Callable[[str, Mapping[str, Any]], bool]  # as `Workload.applies`


class MlflowWriter:
    """MLflow's client, and what has been written so far. Lives in the tracker's thread."""

    def __init__(
        self, name: str, tags: dict[str, str], ids: dict[str, str], applies: Applies
    ) -> None:
        # Imported here, in the tracker's thread: it takes seconds that Ray's start can use.
        import mlflow
        from mlflow.entities import Metric, Param, RunTag

        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        self._Metric, self._Param, self._RunTag = Metric, Param, RunTag
        self._tags, self._ids, self._applies = tags, ids, applies
        with _alone():
            # Not `set_tracking_uri`: a notebook's own MLflow stays where it is.
            self._client = mlflow.MlflowClient(tracking_uri=tracking_uri())
            self._experiment = self._open_experiment(name)
        self._pending: dict[str, list[Any]] = {}
        self._logged: dict[str, int] = {}  # last epoch written, by key
        self._names: dict[str, set[str]] = {}  # metrics written, by key
        self._closed: set[str] = set()  # runs that are complete
        self._bare: set[str] = set()  # runs without parameters yet
        self.find_runs()

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

    def find_runs(self) -> None:
        """What there is already: of an earlier session, or of before an error."""
        token: str | None = ""
        while token is not None:
            page = self._client.search_runs([self._experiment], max_results=1000,
                                            page_token=token or None)  # fmt: skip
            for run in page:
                key = run.data.tags.get(KEY_TAG)
                # A study of the same name in another folder has runs of its own.
                mine = run.data.tags.get("study.id") == self._tags["study.id"]
                if not key or not mine or key in self._ids:
                    continue
                self._ids[key] = run.info.run_id
                self._names[key] = set(run.data.metrics)
                if not run.data.params:
                    self._bare.add(key)
                if "outcome" in run.data.tags:
                    self._closed.add(key)
                elif "seconds" in run.data.metrics:
                    history = self._client.get_metric_history(run.info.run_id, "seconds")
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
        fixed = {"phase": job.phase, "arm": job.arm, "condition": job.condition, "seed": job.seed}
        fixed |= {} if job.replicate is None else {"replicate": job.replicate}
        fixed |= {} if job.training_seed is None else {"training_seed": job.training_seed}
        settings = {
            name: value
            for name, value in job.config.items()
            if value is not None and self._applies(name, job.config)
        }
        parent = self._ids.get(job.phase)
        run_id = self._run(job.key, _name(job), parent=parent, params=fixed | settings)
        self._client.update_run(run_id, status="RUNNING")

    def add(self, key: str, records: Sequence[Record]) -> None:
        last = self._logged.get(key, -1)
        for record in records:
            if record.epoch > last:
                for one in (*record.earlier, record):
                    self._add(key, one.epoch, one.metrics)
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
            last, names = ending.records[-1], set(self._names.get(key, ()))
            for one in (*last.earlier, last):
                self._add(key, one.epoch, {n: v for n, v in one.metrics.items() if n not in names})
        self._write(key)
        tags = {"failure": ending.failure[-4000:], "retried": ending.job.retried}
        tags = {"outcome": ending.outcome} | {n: text for n, text in tags.items() if text}
        if Path(ending.job.kept).is_dir():
            self._client.log_artifacts(self._ids[key], ending.job.kept)
        self._client.set_terminated(self._ids[key], _STATUS[ending.outcome])
        # Last: whoever finds the tag takes the run for complete.
        self._client.log_batch(
            self._ids[key], tags=[self._RunTag(name, value) for name, value in tags.items()]
        )
        self._closed.add(key)

    def backfill(self, ending: Ending) -> None:
        key = ending.job.key
        if key in self._closed:
            return
        self.open(ending.job)
        self.add(key, ending.records)
        self.end(ending)

    def tag(self, phase: str, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            self._client.set_tag(self._ids[phase], name, value)

    def figures(self, phase: str, figures: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self._Metric(_NOT_IN_NAMES.sub("_", name), value, now, 0)
            for name, value in figures.items()
        ]
        for start in range(0, len(metrics), _BATCH):
            self._client.log_batch(self._ids[phase], metrics=metrics[start : start + _BATCH])

    def artifacts(self, phase: str, path: Path, below: str | None) -> None:
        if path.is_dir():
            self._client.log_artifacts(self._ids[phase], str(path), below)
        else:
            self._client.log_artifact(self._ids[phase], str(path), below)

    def flush(self) -> None:
        for key in list(self._pending):
            self._write(key)

    def _write(self, key: str) -> None:
        metrics = self._pending.get(key, [])
        while metrics:  # what is not written stays, for the next try
            self._client.log_batch(self._ids[key], metrics=metrics[:_BATCH])
            del metrics[:_BATCH]
        self._pending.pop(key, None)

    def _run(self, key: str, name: str, *, parent: str | None, params: Mapping[str, Any]) -> str:
        if key not in self._ids:
            tags = self._tags | {KEY_TAG: key, "mlflow.runName": name}
            if parent:
                tags["mlflow.parentRunId"] = parent
            run = self._client.create_run(self._experiment, run_name=name, tags=tags)
            self._ids[key] = run.info.run_id
            self._bare.add(key)
        if key in self._bare:
            values = [self._Param(k, str(v)[:_VALUE_LIMIT]) for k, v in params.items()]
            self._client.log_batch(self._ids[key], params=values)
            self._bare.discard(key)
        return self._ids[key]


def _name(job: Job) -> str:
    """`r3 · debiased_pos · seed 7`: what differs comes first, since the UI cuts names off."""
    parts = [] if job.replicate is None else [f"r{job.replicate}"]
    parts += [job.arm] if job.condition == DEFAULT_CONDITION else [job.arm, job.condition]
    parts += [] if job.number is None else [f"trial {job.number}"]
    parts += [] if job.phase == "search" else [f"seed {job.seed}"]
    return " · ".join(parts)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process at a time for this database: two that create `mlflow.db` at once break it."""
    if not tracking_uri().startswith("sqlite:"):
        yield
        return
    name = hashlib.sha256(tracking_uri().encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"mlflow-{name}.lock"):
        yield
