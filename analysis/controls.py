"""Did training help, compared with the same encoder before training?

Descriptive: these differences are no claims and take no part in their correction.
"""

from __future__ import annotations

from analysis.metric import Metric
from analysis.scores import Scores
from analysis.statistics import pair, paired_interval

TRAINED = Metric("test/knn_top1", "test/knn_top1")
UNTRAINED = Metric("test/untrained_knn_top1", "test/untrained_knn_top1")


def training_helps(scores: Scores, arms: list[str], conditions: list[str]) -> list[dict]:
    """Trained minus untrained kNN accuracy per arm and condition, paired by seed."""
    rows = []
    for arm in arms:
        for condition in conditions:
            after, before = (scores.of(arm, condition, m) for m in (TRAINED, UNTRAINED))
            seeds = [seed for seed in after if seed in before]
            if not seeds:
                continue
            paired = pair([before[s] for s in seeds], [after[s] for s in seeds])
            interval = paired_interval(paired)
            rows.append(
                {
                    "arm": arm,
                    "condition": condition,
                    "metric": TRAINED.text,
                    "n": paired.n,
                    "trained": float(paired.b.mean()),
                    "untrained": float(paired.a.mean()),
                    "mean_difference": float(paired.d.mean()),
                    "ci_low": interval[0] if interval else None,
                    "ci_high": interval[1] if interval else None,
                    "reason": paired.degenerate,
                }
            )
    return rows
