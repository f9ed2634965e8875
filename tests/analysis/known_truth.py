"""Tables of results whose truth is known."""

from __future__ import annotations

import numpy as np
import pandas as pd

METRIC = "test/knn_top1"


def table_of(scores: dict, *, metric: str = METRIC, condition: str | None = None) -> pd.DataFrame:
    """A table from arm -> list of scores, seeds numbered from 0."""
    rows = [
        {"arm": arm, "seed": seed, "metric": metric, "value": value}
        for arm, values in scores.items()
        for seed, value in enumerate(values)
    ]
    frame = pd.DataFrame(rows)
    return frame if condition is None else frame.assign(condition=condition)


def noisy(mean: float, n: int = 8, *, sd: float = 0.004, seed: int = 0) -> list[float]:
    """n scores about a mean that share the ups and downs of their seeds."""
    shared = np.random.default_rng(99).normal(0, 0.01, n)
    return list(mean + shared + np.random.default_rng(seed).normal(0, sd, n))
