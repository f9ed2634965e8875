"""What does it cost to send one view through an encoder, and back?"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from contrastive.encoders import SimCLR

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
        encoder: a name in `ENCODERS`.
        shape: channels, height and width of a view.
        projection_dim: width of the embeddings.
    """
    with torch.device("meta"):
        model = SimCLR(encoder, shape[0], projection_dim)
        images = torch.empty(_VIEWS, *shape)
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        embeddings = model(images)
        forward = counter.get_total_flops()
        embeddings.backward(torch.empty_like(embeddings))
    return Flops(forward // _VIEWS, (counter.get_total_flops() - forward) // _VIEWS)
