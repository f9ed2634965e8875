"""Contrastive representation learning: data, encoders, losses, training and evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contrastive.encoders import load_encoder

__all__ = ["load_encoder"]


def __getattr__(name: str) -> Any:
    # When it is first asked for: a study's driver does without PyTorch's 400 MB.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from contrastive import encoders

    return getattr(encoders, name)
