"""Augmentation: a batch of images turned into random views, all images at once."""

from contrastive.augmentations.draws import Draws, draw_epoch
from contrastive.augmentations.pipelines import PIPELINES, Pipeline, digits, natural

__all__ = ["PIPELINES", "Draws", "Pipeline", "digits", "draw_epoch", "natural"]
