"""A training function of microseconds whose methods differ by a known amount.

What makes tuned methods hard to compare is here, each with a size of its own: the luck of the
search, of the seed and of the split, learning curves that cross, and settings that diverge.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

SEED_SD = 0.01  # of a score between seeds: √2 times that between paired differences
SPLIT_SD = 0.01  # of a configuration's validation score between splits: a search is misled by it
BASE_SD = 0.02  # of all scores of a split: hard and easy splits, which pairing takes out
JITTER_SD = 0.003  # of the validation score between epochs
LAG = 0.05  # what the slowest settings miss in the first epochs
DIVERGES_ABOVE = 0.95  # of one setting: a twentieth of the space


def train(
    run,
    *,
    x: float = 0.5,
    y: float = 0.5,
    z: float = 0.5,
    method: int = 0,
    gain: float = 0.0,
    relief: float = 0.0,
    split_seed: int = 0,
    epochs: int = 6,
) -> None:
    """Report a learning curve that ends near `quality`.

    Methods differ in two ways: in where their good settings are (`method`, from 0 to 7) and in
    `gain`, which is added to every score. The first is a reflection of the space, under which
    sampler and early stopping are the same, and neither looks at more than differences of scores:
    so the true difference of two methods is the difference of their gains, however they are tuned.
    """
    at = _reflected(x, y, z, method)
    if at[0] > DIVERGES_ABOVE:
        run.report(1, {"val/score": 0.5})
        run.report(2, {"val/score": math.nan})
    level = 0.7 + gain + quality({"x": x, "y": y, "z": z, "method": method, "relief": relief})
    level += _normal(BASE_SD, "split", split_seed)
    level += _normal(SEED_SD, "seed", run.seed, x, y, z, method)
    misled = _normal(SPLIT_SD, "validation", split_seed, x, y, z, method)
    lag = LAG * (1 + math.sin(13 * at[1] + 4 * at[2])) / 2  # of good and of bad settings alike
    for epoch in range(1, epochs + 1):
        seen = level + misled - lag * math.exp((1 - epoch) / 2)
        metrics = {"val/score": seen + _normal(JITTER_SD, "epoch", run.seed, epoch, x, y, z)}
        if epoch == epochs and run.read_test:
            metrics["test/score"] = level
        run.report(epoch, metrics)


def quality(settings: Mapping[str, float]) -> float:
    """What a configuration adds to the score of any seed and split; `relief` scales it."""
    x, y, z = _reflected(*(settings[name] for name in "xyz"), settings.get("method", 0))
    waves = math.sin(7 * x + 3 * y) + math.sin(11 * y - 5 * z + 1) + math.sin(6 * z + 9 * x + 2)
    return settings["relief"] * waves


def _reflected(x: float, y: float, z: float, method: int) -> list[float]:
    """The point as the first method sees it: bit i of `method` turns axis i around."""
    return [1 - v if int(method) >> i & 1 else v for i, v in enumerate((x, y, z))]


def _normal(sd: float, *what: object) -> float:
    """The same for the same arguments, in any process."""
    return random.Random(repr(what)).gauss(0, sd)
