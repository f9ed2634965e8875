"""What a run keeps of its trained encoder where the study asks: its features, and itself."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from contrastive.encoders import ENCODER_FILE, Inputs, SimCLR, save_encoder
from contrastive.training.evaluator import Features

FEATURES_FILE = "features.npz"
MOST_IMAGES = 10_000  # of each split: 20 MB before compression where h has 512 numbers


@dataclass(frozen=True)
class Trained:
    """A trained encoder, after its last epoch.

    Attributes:
        model: with its projection head.
        inputs: normalisation and precision of its training.
        classes: names, in the order of the labels.
        features: of the training split's labelled images, and of the test split's.
    """

    model: SimCLR
    inputs: Inputs
    classes: Sequence[str]
    features: Features


def keep(run: Any, trained: Trained, settings: Mapping[str, Any]) -> None:
    """Keep what the study asks for in `confirm.keep`; a full disk costs the files, never the run.

    Args:
        run: the study's view of the training: `to_keep`, `folder`, `keep`.
        trained: its encoder.
        settings: of the training.
    """
    with contextlib.suppress(OSError):  # the report names the runs without features
        if "features" in run.to_keep:
            file = run.folder / FEATURES_FILE
            save_features(file, trained.features, classes=trained.classes)
            run.keep(file)
        if "encoder" in run.to_keep:
            file = run.folder / ENCODER_FILE
            about = {name: getattr(run, name) for name in ("arm", "condition", "replicate", "seed")}
            save_encoder(file, trained.model, trained.inputs, settings=settings, about=about)
            run.keep(file)


def save_features(file: Path, features: Features, *, classes: Sequence[str] = ()) -> None:
    """Write the representations of two splits in half precision, compressed.

    `train` and `test` are (N, D) float16 and, times `scale`, the representations; `train_labels`
    and `test_labels` are (N,) whole numbers, `classes` their names, `images` how many images the
    splits have: of more than 10,000, so many are kept, evenly spaced.

    Args:
        file: where to, `*.npz`.
        features: the bank as `train`, the queries as `test`.
        classes: names.
    """
    # A power of two, which divides exactly: half precision ends at 65,504, and at 6e-8 below.
    train, test = features[:2], features[2:]
    largest = max(float(h.abs().max()) for h, _ in (train, test))
    scale = 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0
    content: dict[str, Any] = {
        "scale": scale,
        "classes": np.array(list(classes), dtype=np.str_),
        "images": np.array([len(train[0]), len(test[0])]),
    }
    for name, (h, labels) in (("train", train), ("test", test)):
        chosen = evenly(len(h), MOST_IMAGES).to(h.device)
        content[name] = (h[chosen] / scale).half().cpu().numpy()
        content[f"{name}_labels"] = labels[chosen].int().cpu().numpy()
    np.savez_compressed(file, **content)


def evenly(count: int, most: int) -> Tensor:
    """Up to `most` of the positions 0 … count - 1, evenly spaced: sorted classes keep their shares.

    Example:
        >>> evenly(10, 4).tolist(), evenly(3, 4).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    if count <= most:
        return torch.arange(count)
    return torch.arange(most) * count // most
