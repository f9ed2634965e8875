"""The Python interface for scripts and notebooks: `run_study` and `run_once`.

Example:
    >>> import study
    >>> def train(run, *, rate: float = 0.5, epochs: int = 3) -> None:
    ...     for epoch in range(1, epochs + 1):
    ...         run.report(epoch, {"val/error": rate**epoch})
    >>> study.run_once(train, {"rate": 0.25}, seed=1).metrics["val/error"]
    0.015625
"""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Ray, MLflow and PyTorch are imported

import html  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
from collections.abc import Callable, Mapping, Sequence  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import pandas as pd  # noqa: E402
from rich.console import Console  # noqa: E402

from study.design import Study  # noqa: E402
from study.errors import StudyError  # noqa: E402
from study.masking import masked  # noqa: E402
from study.spec import load_study  # noqa: E402
from study.workload import (  # noqa: E402
    Diverged,
    FunctionWorkload,
    Run,
    Workload,
    load_workload,
)

_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class StudyResult:
    """What a study has found; shows its verdicts in a notebook.

    Attributes:
        study: the design.
        folder: where everything is kept.
        verdicts: by claim: supported, refuted, equivalent, undecided or invalid.
        sentences: the verdicts in words, one for each claim.
        failed: whether a training failed.
    """

    study: Study
    folder: Path
    verdicts: dict[str, str]
    sentences: tuple[str, ...]
    failed: bool

    @property
    def results(self) -> pd.DataFrame:
        """`results.csv`: every figure of the confirmation."""
        return pd.read_csv(self.folder / "results.csv")

    @property
    def runs(self) -> pd.DataFrame:
        """`runs.csv`: one row for each trial and each run of the confirmation."""
        return pd.read_csv(self.folder / "runs.csv")

    @property
    def report(self) -> Path:
        """The report as one HTML file."""
        return self.folder / "report" / "report.html"

    def __repr__(self) -> str:
        return "\n".join([f"study {self.study.name}", *self.sentences])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        link = html.escape(str(self.report))
        return (
            f"<p><b>{html.escape(self.study.name)}</b>: {html.escape(self.study.question)}</p>"
            f"<ul>{items}</ul><p><a href='{link}'>{link}</a></p>"
        )


def run_study(
    spec: str | os.PathLike[str] | Mapping[str, Any] | Study,
    *,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
    storage: str | os.PathLike[str] = "studies",
    resume: bool = False,
    other_environment: bool = False,
    address: str | None = None,
    quiet: bool = False,
) -> StudyResult:
    """Search each arm, confirm the winners, report: as `python -m study.run`, from any thread.

    Signal handlers and MLflow's global settings stay as they are; Ray is started and ended.

    Args:
        spec: a study file, its content as a mapping, or a study.
        profile, overrides, name: as the command's options; not with a `Study`.
        storage: folder or address in which studies are kept.
        resume: continue an existing study.
        other_environment: continue although processor, threads or versions of libraries differ from
            those of the runs that there are; the report says so.
        address: of a running Ray cluster; None: this machine.
        quiet: print no progress.

    Raises:
        SpecError: lists every fault of the study.
        StudyError: the study exists, has another design, or another study is running.
        Paused: it cannot continue as things are, but can be resumed.
    """
    from study.session import Request, carry_out

    if isinstance(spec, Study):
        study = spec
    else:
        study = load_study(spec, profile=profile, overrides=overrides, name=name)
    shown = str(spec) if isinstance(spec, str | os.PathLike) else study.name
    command = f"python -m study.run {shown}"
    request = Request(
        study,
        storage=str(storage),
        address=address,
        resume=resume,
        other_environment=other_environment,
        command=command,
        named=f"{command} --name {name}" if name else command,
    )
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise StudyError(
            "a study is running in this process\n  try: wait for it, or use another process"
        )
    try:
        console = _MaskingConsole(quiet=quiet, highlight=False, soft_wrap=True)
        code, folder = carry_out(request, console)
    finally:
        _ONE_AT_A_TIME.release()
    return _result(study, folder.path, failed=bool(code))


class _MaskingConsole(Console):
    """A console that shows no secrets; in a notebook its lines do not pass through sys.stdout."""

    def print(self, *objects: Any, **options: Any) -> None:
        shown = (masked(found) if isinstance(found, str) else found for found in objects)
        super().print(*shown, **options)


def _result(study: Study, folder: Path, *, failed: bool) -> StudyResult:
    import json

    from analysis.wording import one_line_verdicts

    report = json.loads((folder / "report" / "report.json").read_text())
    verdicts = {str(claim["id"]): str(claim["verdict"]) for claim in report["claims"]}
    return StudyResult(study, folder, verdicts, tuple(one_line_verdicts(report)), failed)


@dataclass(frozen=True)
class RunResult:
    """What one training has reported.

    Attributes:
        outcome: "finished" or "diverged".
        records: one mapping for each reported epoch, with `epoch` and the metrics.
        reason: why it diverged, or "".
    """

    outcome: str
    records: list[dict[str, float]] = field(repr=False)
    reason: str = ""

    @property
    def curve(self) -> pd.DataFrame:
        """The records as a table, by epoch."""
        records = self.records or {"epoch": []}
        return pd.DataFrame(records).set_index("epoch")

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric."""
        found: dict[str, float] = {}
        for record in self.records:
            found |= {name: value for name, value in record.items() if name != "epoch"}
        return found

    def _repr_html_(self) -> str:
        reason = f"<p>{html.escape(f'{self.outcome}: {self.reason}')}</p>" if self.reason else ""
        return reason + self.curve._repr_html_()


def run_once(
    function: Callable[..., None] | str,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    read_test: bool = False,
    device: str = "cpu",
    threads: int = 1,
    folder: str | os.PathLike[str] | None = None,
) -> RunResult:
    """Train once in this process, without Ray: for debugging a training function.

    What the function raises is raised here.

    Args:
        function: the training function, `module:function`, or `contrastive`.
        settings: of the training; the others have their defaults.
        seed: of everything random.
        read_test: as `run.read_test`; True in a study's confirmation.
        device: as `run.device`.
        threads: as `run.threads`.
        folder: as `run.folder`; None: a temporary one.

    Raises:
        StudyError: the settings do not suit the function.

    Example:
        see the module's.
    """
    workload: Workload
    try:
        if isinstance(function, str):
            workload = load_workload(function, os.getcwd() if ":" in function else "")
        else:
            workload = FunctionWorkload(function, getattr(function, "__name__", "function"))
        complete = workload.complete(settings or {})
        prepared = workload.prepare(complete)
    except ValueError as error:
        hints = [
            f"\n  {title}: {text}"
            for title, name in (("allowed", "allowed"), ("try", "remedy"))
            if (text := getattr(error, name, ""))
        ]
        raise StudyError(f"{error}{''.join(hints)}") from None
    records: list[dict[str, float]] = []

    def send(epoch: int, metrics: dict[str, float], *_: object) -> None:
        records.append({"epoch": epoch} | metrics)

    with tempfile.TemporaryDirectory() as scratch:
        home = Path(folder or scratch)
        run = Run(
            seed=seed,
            phase="confirm" if read_test else "search",
            read_test=read_test,
            threads=threads,
            prepared=prepared,
            _device=lambda: device,
            _home=home,
            _kept=home / "kept",
            _send=send,
            _first_epoch=workload.first_epoch,
        )
        try:
            workload.train(run, complete)
        except Diverged as reason:
            return RunResult("diverged", records, str(reason))
    return RunResult("finished", records)
