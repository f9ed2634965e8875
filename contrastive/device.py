"""Tensors read and made without making the host wait for a GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor


def waits(device: torch.device) -> bool:
    """Whether reading a value on `device` makes the host wait for work that it has queued there.

    A CPU computes at once, so code for it may look: it then changes only the rows that are chosen.
    On a GPU a look, or a selection by mask, stops the queue; there all rows are computed and
    `torch.where` chooses. Tests replace this function to run a GPU's code path on a CPU.
    """
    return device.type != "cpu"


def constant(values: tuple[Any, ...], like: Tensor) -> Tensor:
    """`values` as a tensor of `like`'s type and device, sent there once and not at every step."""
    return _constant(values, like.dtype, like.device)


@cache
def _constant(values: tuple[Any, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
