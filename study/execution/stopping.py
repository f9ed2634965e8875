"""Stopping: how a study that is to end asks the trainings under way to save their state first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT_S = 20.0  # whoever has not reported by then loses what was done since its last save


@dataclass
class Stopping:
    """From whoever asks the study to stop, a signal's handler, to the loop that hears of trainings.

    Attributes:
        asked: whether the study is to stop.
        heeded: whether a loop is under way that raises KeyboardInterrupt soon after it was asked.
    """

    asked: bool = False
    heeded: bool = False

    @contextlib.contextmanager
    def heeding(self) -> Iterator[None]:
        """A block that ends soon after it was asked.

        Raises:
            KeyboardInterrupt: it was asked.
        """
        self.heeded = True
        try:
            yield
        finally:
            self.heeded = False
        if self.asked:
            raise KeyboardInterrupt
