"""The run: what a training function is given, and what it reports to."""

from __future__ import annotations

import math
import numbers
import os
import shutil
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from study.errors import listing, nearest

Counts = Mapping[str, tuple[int, int]]
Figures = tuple[int, dict[str, float], dict[str, tuple[int, int]]]  # epoch, metrics, counts
Send = Callable[[int, dict[str, float], dict[str, tuple[int, int]], bool, list[Figures]], None]


class Stopped(BaseException):
    """The search has stopped this trial, or the study ends. Raised by `Run.report`: let it pass.

    Not an `Exception`, so that a training loop's `except Exception` does not swallow it.
    """


class Diverged(Exception):
    """The training has diverged: a result of the arm, not a fault of the machine."""


class ReportError(ValueError):
    """What a function reported cannot be used; the run fails with this message."""


@dataclass
class Run:
    """One training, as its function sees it.

    Attributes:
        seed: of everything random; the same in every arm, so that runs can be paired.
        arm, condition, phase: where in the study; phase is "search", "recheck" or "confirm".
        replicate: the independent search that the run belongs to; None without one.
        read_test: whether to report `test/…` metrics; only in the confirmation.
        test_epochs: epochs of which claims need a test metric besides the last, by metric; only of
            metrics that the workload offers in `test_curves`.
        to_keep: what the study asks to keep of the trained model; only what the workload offers in
            `keepable`.
        threads: CPU threads to use.
        prepared: what the workload's `prepare` returned in the driver.

    Example:
        >>> def train(run, *, learning_rate: float = 0.1, epochs: int = 2) -> None:
        ...     for epoch in range(1, epochs + 1):
        ...         run.report(epoch, {"val/error": learning_rate / epoch})
    """

    seed: int
    arm: str = ""
    condition: str = ""
    phase: str = "search"
    replicate: int | None = None
    read_test: bool = False
    test_epochs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    to_keep: Sequence[str] = ()
    threads: int = 1
    prepared: str = ""
    _home: Path = field(default=Path(), repr=False)
    _kept: Path = field(default=Path(), repr=False)
    _send: Send = field(default=lambda *_: None, repr=False)
    _known: Sequence[str] | None = field(default=None, repr=False)
    _fractions: Container[str] = field(default=(), repr=False)
    _first_epoch: int = field(default=1, repr=False)
    _device: Callable[[], str] = field(default=lambda: "cpu", repr=False)
    _spent_before: Callable[[int], float] = field(default=lambda epoch: 0.0, repr=False)
    _on_folder: Callable[[], None] = field(default=lambda: None, repr=False)
    _stopping: Callable[[], bool] = field(default=lambda: False, repr=False)

    def __post_init__(self) -> None:
        self._started, self._process = time.monotonic(), os.getpid()
        self._epoch: int | None = None
        self._test_at: dict[str, int] = {}
        self._finite: dict[str, float] = {}
        self._stopped = False

    @property
    def device(self) -> str:
        """Where to train: `cuda` where the run has a GPU, or a part of one, else `cpu`."""
        return self._device()

    @property
    def folder(self) -> Path:
        """A folder of this training's own, for checkpoints.

        What is written there survives a crash and a move to another node; it is removed when the
        training has ended. Report an epoch before you save it: what was saved and not reported is
        lost to the study if the process dies in between.
        """
        if not self._home.is_dir():
            self._home.mkdir(parents=True, exist_ok=True)
        self._on_folder()
        return self._home

    @property
    def stopping(self) -> bool:
        """Whether the study is being stopped: save the state in `folder` and return.

        The training goes on from there when the study is resumed. A function that does not ask is
        stopped by its report after the next one; what it has saved is kept all the same.
        """
        return self._stopping()

    def report(
        self,
        epoch: int,
        metrics: Mapping[str, Any],
        counts: Counts | None = None,
        *,
        last: bool = False,
        earlier: Iterable[tuple[int, Mapping[str, Any], Counts]] = (),
    ) -> None:
        """Report the figures of an epoch.

        Args:
            epoch: counted from 1, in order. Epochs reported before a crash may be reported again.
            metrics: numbers by name, of the metrics that the study declares.
            counts: (correct, total) of metrics that are accuracies, so that ties are exact.
            last: whether the training ends here, where the settings do not tell: then it has
                finished and is not stopped any more.
            earlier: (epoch, metrics, counts) of earlier epochs that the one reading of the test
                split gave too, see `test_epochs`.

        Raises:
            Stopped: the search stops the trial here, or the study is being stopped and this is the
                second report since; let it pass.
            ReportError: the report cannot be used.
        """
        if os.getpid() != self._process:
            raise ReportError(
                "run.report was called in a forked process; allowed: in the process of the "
                "training function"
            )
        if self._stopped:
            raise Stopped
        self._check_epoch(epoch)
        epoch = int(epoch)  # numpy's whole numbers are no JSON
        values = self._checked(metrics, epoch)
        before = [(int(e), self._checked(m, epoch), _whole(c)) for e, m, c in earlier]
        if self._epoch is None:
            self._before = self._spent_before(epoch)
        self._epoch, self._finite = epoch, values
        spent = self._before + time.monotonic() - self._started
        try:
            self._send(epoch, {"seconds": spent} | values, _whole(counts or {}), last, before)
        except Stopped:
            self._stopped = True
            raise

    def diverged(self, message: str) -> NoReturn:
        """End the run as diverged, which is a result and not a failure."""
        raise Diverged(message)

    def keep(self, path: str | os.PathLike[str]) -> None:
        """Keep a file (weights, a figure) as an artifact of this run in MLflow.

        Raises:
            ReportError: there is no such file.
        """
        file = Path(path)
        if not file.is_file():
            raise ReportError(f"run.keep was given {file}, which is no file")
        place = self._kept / file.name
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.resolve() != place.resolve():
            shutil.copyfile(file, place)

    def _check_epoch(self, epoch: Any) -> None:
        if isinstance(epoch, bool) or not isinstance(epoch, numbers.Integral):
            raise ReportError(f"epoch is {epoch!r}; allowed: a whole number")
        least = self._first_epoch if self._epoch is None else self._epoch + 1
        if epoch < least:
            again = self._epoch is not None and epoch == self._epoch
            raise ReportError(
                f"epoch {epoch} was reported {'twice' if again else f'after {self._epoch}'}"
                if self._epoch is not None
                else f"epoch {epoch} was reported; epochs count from {least}"
            )

    def _checked(self, metrics: Mapping[str, Any], epoch: int) -> dict[str, float]:
        """The metrics of a report as finite numbers under their declared names."""
        values = {str(name): self._number(name, value) for name, value in metrics.items()}
        self._check_names(values, epoch)
        for name, value in values.items():
            if not math.isfinite(value):
                self.diverged(
                    f"{name} is {value} in epoch {epoch}; last finite metrics: {self._finite}"
                )
            if name in self._fractions and not 0 <= value <= 1:
                raise ReportError(
                    f"{name} is {value:g}, but its unit is fraction; allowed: a number in [0, 1]; "
                    "try: divide it by 100 if it is in per cent, or take `unit` out of `metrics:`"
                )
        return values

    def _number(self, name: Any, value: Any) -> float:
        if not isinstance(value, str | bytes | bool):
            try:
                return float(value)
            except (TypeError, ValueError, RuntimeError):
                pass
        shown = repr(value)
        raise ReportError(
            f"{name} is {shown if len(shown) < 80 else shown[:77] + '...'}; allowed: one number"
        )

    def _check_names(self, values: Mapping[str, float], epoch: int) -> None:
        for name in values:
            if self._known is not None and name not in self._known:
                close = nearest(name, self._known)
                raise ReportError(
                    f"{name} was reported, which the study does not declare; allowed: "
                    f"{listing(self._known)}"
                    + (f"; did you mean {close}?" if close else "")
                    + "; try: add it to `metrics:` in the study file"
                )
            if name.startswith("test/"):
                if not self.read_test:
                    raise ReportError(
                        f"{name} was reported in the search, where the test split may not be read; "
                        "try: report it only if run.read_test"
                    )
                if self._test_at.setdefault(name, epoch) != epoch:
                    raise ReportError(
                        f"{name} was reported after epoch {self._test_at[name]} and again after "
                        f"epoch {epoch}: the test split is read once; try: report it after the "
                        "last epoch only"
                    )


def _whole(counts: Counts) -> dict[str, tuple[int, int]]:
    return {name: (int(correct), int(total)) for name, (correct, total) in counts.items()}
