"""Tests, intervals, effect sizes and power.

Curves, ranks and the best of k trials are imported by their own modules' names.
"""

from __future__ import annotations

from analysis.statistics.effect_sizes import effects
from analysis.statistics.paired import (
    CONFIDENCE,
    FEWEST_FOR_BOOTSTRAP,
    RNG_SEED,
    Paired,
    Score,
    bootstrap_interval,
    describe,
    equivalence_p,
    holm,
    pair,
    paired_interval,
    sign_flip,
    split_variance,
)
from analysis.statistics.power import (
    MOST_SEEDS,
    POWER,
    minimum_detectable_effect,
    seeds_for,
    seeds_needed_for_family,
    smallest_p,
)
from analysis.statistics.secondary_tests import SECONDARY, secondary
from analysis.statistics.survival import median_time

__all__ = [
    "CONFIDENCE",
    "FEWEST_FOR_BOOTSTRAP",
    "MOST_SEEDS",
    "POWER",
    "RNG_SEED",
    "SECONDARY",
    "Paired",
    "Score",
    "bootstrap_interval",
    "describe",
    "effects",
    "equivalence_p",
    "holm",
    "median_time",
    "minimum_detectable_effect",
    "pair",
    "paired_interval",
    "secondary",
    "seeds_for",
    "seeds_needed_for_family",
    "sign_flip",
    "smallest_p",
    "split_variance",
]
