"""The floating-point operations that one view costs in an encoder, forward and backward."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from contrastive.encoders import ENCODERS, SimCLR

_VIEWS = 2  # batch normalisation needs two; FLOPs are proportional to the number of views


class Flops(NamedTuple):
    """Floating-point operations of one view; a multiplication and an addition count as two."""

    forward: int
    backward: int

    @property
    def training(self) -> int:
        """Forward and backward."""
        return self.forward + self.backward


@lru_cache(maxsize=64)
def flops_per_view(encoder: str, shape: tuple[int, int, int], projection_dim: int) -> Flops:
    """The matrix products and convolutions of backbone and projection head, as PyTorch counts them.

    Counted on the meta device, where nothing is computed and no random number is drawn, and once
    per process: 25 ms for `small_cnn`. The backward pass is counted too; it is slightly less than
    twice the forward pass, since no gradient is taken for the images. Augmentation, normalisation,
    activations and the loss are left out: they are memory traffic more than arithmetic.

    Args:
        encoder: its name.
        shape: channels, height and width of a view.
        projection_dim: width of the embeddings.
    """
    return _counted(encoder, shape, projection_dim)


def flops_if_known(encoder: str, shape: tuple[int, int, int], projection_dim: int) -> Flops | None:
    """As `flops_per_view`; None for a user's encoder that cannot be run without its numbers."""
    if encoder in ENCODERS:
        return flops_per_view(encoder, shape, projection_dim)
    try:
        # Not remembered: within a process the same name can come to mean another function.
        with torch.random.fork_rng(devices=[]):
            return _counted(encoder, shape, projection_dim)
    except Exception:  # whatever the user's code raises on the meta device
        return None


def _counted(encoder: str, shape: tuple[int, int, int], projection_dim: int) -> Flops:
    with torch.device("meta"):
        model = SimCLR(encoder, shape[0], projection_dim)
        images = torch.empty(_VIEWS, *shape)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        embeddings = model(images)
        forward = counter.get_total_flops()
        embeddings.backward(torch.empty_like(embeddings))
    return Flops(forward // _VIEWS, (counter.get_total_flops() - forward) // _VIEWS)
