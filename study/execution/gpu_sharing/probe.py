"""The probe: what a training does on a card while others may run beside it. Needs no Ray.

It is the very training that the search would run, steps and evaluations on the validation split,
over and over, and is stopped from a hook of the optimiser, or where it reports. So its memory and
its speed are those of a search's trial. No result of it is kept.

The reading of the test split, which ends a confirmation run, is not measured: it is read once per
run, and a measurement is none. It holds the test images, the representations of both splits and a
standardised copy of them, the linear probe with L-BFGS's history, and an untrained second encoder.
By then the activations of the last step are free again; where they were less (small batches, a
large test split), the tenth of the card that stays free must do, and else the run is begun once
more with twice its share, see `study.execution.ray_tune`.
"""

from __future__ import annotations

import contextlib
import importlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.errors import first_line
from study.workload import Diverged, Run, Stopped, load_object, load_workload

_GIB = 2**30


@dataclass(frozen=True)
class Glance:
    """A look at a running training.

    Attributes:
        steps: training steps done so far.
        at_s: when, by this process's own clock.
        peak_gib: most that PyTorch has held of the card for it.
        held_gib: what PyTorch holds of it now.
        used_gib: of the card now, by all processes, their CUDA contexts included.
        error: what ended it, or empty.
    """

    steps: int
    at_s: float
    peak_gib: float
    held_gib: float
    used_gib: float
    error: str


class Probe:
    """One training at a time, repeated until it is stopped.

    Args:
        threads: CPU threads for PyTorch.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._thread: threading.Thread | None = None
        self._steps, self._error = 0, ""
        self._stopping = threading.Event()

    def cards(self) -> list[tuple[str, float]]:
        """Name and GiB of each card that this process sees."""
        torch = _torch()
        if torch is None or not torch.cuda.is_available():
            return []
        found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        return [(card.name, card.total_memory / _GIB) for card in found]

    def start(self, training: Mapping[str, Any]) -> None:
        """Begin, in a thread of its own.

        Args:
            training: `study.records.job.work` of the configuration.
        """
        self.stop()
        self._steps, self._error = 0, ""
        self._stopping.clear()
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self._thread = threading.Thread(target=self._run, args=(dict(training),), daemon=True)
        self._thread.start()

    def look(self) -> Glance:
        """How far it is and what it has needed."""
        peak = held = used = 0.0
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            peak, held = torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved()
            free, total = torch.cuda.mem_get_info()
            used = total - free
        memory = (peak / _GIB, held / _GIB, used / _GIB)
        return Glance(self._steps, time.monotonic(), *memory, self._error)

    def stop(self) -> None:
        """End it after its current step, and give its memory back."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _run(self, training: dict[str, Any]) -> None:
        try:
            workload = load_workload(
                training["workload"], training["beside"], training["declared"]
            ).extended([training["config"]], lambda name: load_object(name, training["beside"]))
            with self._counted_steps():
                while True:
                    with tempfile.TemporaryDirectory() as folder:
                        # A training that diverges costs as much as one that learns.
                        with contextlib.suppress(Diverged):
                            workload.train(self._as_run(Path(folder), training), training["config"])
                        self._raise_if_stopped()
        except Stopped:
            pass
        except Exception as error:
            self._error = first_line(error)

    def _as_run(self, folder: Path, training: Mapping[str, Any]) -> Run:
        # Never the test split: it is read once per confirmation run.
        return Run(
            seed=0,
            threads=self._threads,
            prepared=training["data"],
            _home=folder / "checkpoint",
            _kept=folder / "kept",
            _send=lambda *_: self._on_report(),
            _first_epoch=0,
            _device=lambda: "cuda" if (torch := _torch()) and torch.cuda.is_available() else "cpu",
        )

    @contextlib.contextmanager
    def _counted_steps(self) -> Iterator[None]:
        """Steps of PyTorch's optimisers; without PyTorch reports are counted instead."""
        self._hooked = _torch() is not None
        if not self._hooked:
            yield
            return
        optimiser = importlib.import_module("torch.optim.optimizer")
        hook = optimiser.register_optimizer_step_post_hook(self._count)
        try:
            yield
        finally:
            hook.remove()

    def _on_report(self) -> None:
        if not self._hooked:
            self._count()
        self._raise_if_stopped()

    def _count(self, *_: object) -> None:
        self._steps += 1
        self._raise_if_stopped()

    def _raise_if_stopped(self) -> None:
        if self._stopping.is_set():
            raise Stopped


def _torch() -> Any:
    """PyTorch, where it is installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        return None
