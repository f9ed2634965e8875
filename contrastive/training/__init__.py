"""The training of an encoder: its loop, length, evaluation and cost.

The names that need PyTorch are imported when they are first asked for: a study's driver asks only
for the length of a training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contrastive.training.length import Extent, extent

if TYPE_CHECKING:
    from contrastive.training.loop import Diverged, EpochRecord, StateError, train

__all__ = ["Diverged", "EpochRecord", "Extent", "StateError", "extent", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from contrastive.training import loop

    return getattr(loop, name)
