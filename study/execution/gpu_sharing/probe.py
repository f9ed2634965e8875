"""What does a training do on a card while others may run beside it? Plain code, without Ray.

It is the very training that the search would run, steps and evaluations on the validation split,
over and over, and is ended from a hook of the optimiser. So its memory and its speed are those of a
search's trial. No result of it is kept.

The reading of the test split, which ends a confirmation run, is not measured: it is read once per
run, and a measurement is none. It holds the test images, the representations of both splits and a
standardised copy of them, the linear probe with L-BFGS's history, and an untrained second encoder.
By then the activations of the last step are free again; where they were less (small batches, a
large test split), the tenth of the card that stays free must do, and else the run is begun once
more with twice its share, see `study.execution.ray_tune`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from contrastive.config import TrainConfig
from contrastive.data import load_prepared
from contrastive.training.loop import Diverged, train

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
    """One training at a time that goes on, over and over, until it is stopped.

    Args:
        threads: CPU threads for PyTorch.
    """

    def __init__(self, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._thread: threading.Thread | None = None
        self._steps, self._error = 0, ""
        self._stopping = threading.Event()

    def cards(self) -> list[tuple[str, float]]:
        """Name and GiB of each card that this process sees."""
        if not torch.cuda.is_available():
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
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self._thread = threading.Thread(target=self._run, args=(dict(training),), daemon=True)
        self._thread.start()

    def look(self) -> Glance:
        """How far it is and what it has needed."""
        peak = held = used = 0.0
        if torch.cuda.is_available():
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
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _run(self, training: dict[str, Any]) -> None:
        hook = register_optimizer_step_post_hook(self._count)
        try:
            config = TrainConfig(**training["config"])
            here = Path(training["data"]).is_dir()  # as in study.trial
            dataset = load_prepared(Path(training["data"])) if here else None
            while True:
                try:
                    # Never the test split: it is read once per confirmation run.
                    for _ in train(config, 0, dataset=dataset, read_test=False):
                        self._raise_if_stopped()
                except Diverged:  # costs as much as one that learns
                    continue
        except _Stopped:
            pass
        except Exception as error:
            self._error = str(error).strip().splitlines()[0] if str(error) else repr(error)
        finally:
            hook.remove()

    def _count(self, *_: object) -> None:
        self._steps += 1
        self._raise_if_stopped()

    def _raise_if_stopped(self) -> None:
        if self._stopping.is_set():
            raise _Stopped


class _Stopped(Exception):
    """Unwinds the training."""
