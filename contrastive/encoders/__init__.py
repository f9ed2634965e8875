"""The encoders, which turn images into representations h and embeddings z."""

from contrastive.encoders.backbones import ENCODERS, build_backbone, encoder_named
from contrastive.encoders.inputs import Inputs
from contrastive.encoders.saved import (
    ENCODER_FILE,
    Encoder,
    EncoderFileError,
    load_encoder,
    save_encoder,
)
from contrastive.encoders.simclr import SimCLR, build_model

__all__ = [
    "ENCODERS",
    "ENCODER_FILE",
    "Encoder",
    "EncoderFileError",
    "Inputs",
    "SimCLR",
    "build_backbone",
    "build_model",
    "encoder_named",
    "load_encoder",
    "save_encoder",
]
