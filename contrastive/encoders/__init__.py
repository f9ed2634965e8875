"""The encoders, which turn images into representations h and embeddings z."""

from contrastive.encoders.backbones import ENCODERS, build_backbone, encoder_named
from contrastive.encoders.inputs import Inputs
from contrastive.encoders.simclr import SimCLR, build_model

__all__ = [
    "ENCODERS",
    "Inputs",
    "SimCLR",
    "build_backbone",
    "build_model",
    "encoder_named",
]
