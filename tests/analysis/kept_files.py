"""Features as runs keep them, made up, and kNN on them as a plain loop."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from analysis.representations.kept import FILE, Features

CLASSES = 3


def made_up(seed: int, *, spread: float, train: int = 60, test: int = 30) -> dict[str, np.ndarray]:
    """Three classes around three points; the larger the spread, the more they overlap."""
    rng = np.random.default_rng(seed)
    centres = np.eye(CLASSES, 5)
    found: dict[str, np.ndarray] = {}
    for name, count in (("train", train), ("test", test)):
        labels = np.arange(count) % CLASSES
        h = centres[labels] + spread * rng.normal(size=(count, 5))
        found |= {name: h.astype(np.float16), f"{name}_labels": labels.astype(np.int32)}
    return found


def features(seed: int, **options) -> Features:
    """The same as they are read."""
    content = made_up(seed, **options)
    h = {name: content[name].astype(np.float32) for name in ("train", "test")}
    labels = [content[f"{name}_labels"].astype(np.int64) for name in ("train", "test")]
    names = ("a", "b", "c")
    return Features(
        h["train"], labels[0], h["test"], labels[1], names, (len(labels[0]), len(labels[1]))
    )


def keep(kept: Path, where: str, content: dict[str, np.ndarray]) -> Path:
    """Write features where a run keeps them, `[REPLICATE/]ARM/CONDITION/SEED`."""
    file = kept / "confirm" / where / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **content)
    return file


def knn_by_loops(found: Features, k: int, t: float) -> list[list[int]]:
    """Wu et al. 2018, Section 3.4, one pair of images at a time."""
    ranked = []
    for query in found.test:
        cosines = [
            float(np.dot(query, h) / (np.linalg.norm(query) * np.linalg.norm(h)))
            for h in found.train
        ]
        nearest = sorted(range(len(cosines)), key=lambda i: -cosines[i])[:k]
        votes = [0.0] * len(found.classes)
        for i in nearest:
            votes[found.train_labels[i]] += math.exp(cosines[i] / t)
        ranked.append(sorted(range(len(votes)), key=lambda c: (-votes[c], c)))
    return ranked
