"""SimCLR's model: a backbone and the projection head that the losses see."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from contrastive.encoders.backbones import build_backbone


class SimCLR(nn.Module):
    """A backbone and SimCLR's projection head (width -> width -> projection_dim).

    The head is the preprint's: linear, BatchNorm, ReLU, linear (512→512→128 on ResNet-18).
    Embeddings are not normalised here: the losses do that, in float32.
    """

    def __init__(self, encoder: str, channels: int, projection_dim: int) -> None:
        super().__init__()
        self.backbone, width = build_backbone(encoder, channels)
        self.projection_head = nn.Sequential(
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
            nn.Linear(width, projection_dim),
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) float images -> (B, projection_dim) embeddings z."""
        return self.projection_head(self.backbone(images))


def build_model(encoder: str, channels: int, projection_dim: int, *, seed: int) -> SimCLR:
    """A model whose initial weights depend on `seed` alone, wherever it is built.

    The weights are drawn on the CPU with the global generator set aside, so that a GPU or an
    earlier training in the same process cannot change them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SimCLR(encoder, channels, projection_dim)
