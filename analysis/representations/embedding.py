"""The picture of the representations: t-SNE of test images for some arms, side by side.

After Figure 5 of Chuang et al. 2020, with numbers beside it: a picture alone decides nothing, and
t-SNE shows neither distances between clusters nor their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.inputs import Metric, Plan
from analysis.inputs.results_table import Results
from analysis.representations.kept import Features, Kept
from analysis.verdicts import Scores

MOST_ARMS = 6  # panels
MOST_IMAGES = 1000  # t-SNE takes 4 s for so many, four times that for twice as many
FEWEST_IMAGES = 8
PERPLEXITY = 30  # scikit-learn's default
RANDOM_STATE = 0
# Measured by the runs themselves, on the projection head's embeddings but for kNN.
MEASURED = ("test/knn_top1", "test/alignment", "test/uniformity")


def embedding(
    kept: Kept | None, scores: Scores, results: Results, plan: Plan, arms: Sequence[str]
) -> dict[str, Any] | None:
    """Coordinates and measures of each arm's test images; None where the plan asks for none.

    Of each arm the run of one seed is taken, under the first condition: the first seed in the table
    for which all drawn arms have features.

    Args:
        kept: features of the study's runs; None where there are none.
        scores, results: of the table.
        plan: its `embedding` names the arms, all of them if it is empty.
        arms: of the report, in order.
    """
    if plan.embedding is None:
        return None
    asked = [arm for arm in plan.embedding or arms if arm in arms]
    drawn, left_out = asked[:MOST_ARMS], asked[MOST_ARMS:]
    about = {"condition": plan.conditions[0], "left_out": left_out}
    if kept is None or not kept.any:
        why = "no run kept features; `confirm: {keep: [features]}` keeps those of runs to come"
        return about | {"arms": [], "classes": [], "seed": None, "reason": why}
    seed, found = _unit(kept, results, drawn, about["condition"])
    panels = [_panel(arm, found.get(arm), scores, about["condition"], seed) for arm in drawn]
    for panel in panels:
        why = kept.unused.get((panel["arm"], about["condition"], seed))
        panel["reason"] = f"features {why}" if why else panel["reason"]
    classes = next((own.classes for own in found.values()), ())
    reason = None if found else "no run of these arms has usable features"
    return about | {"arms": panels, "classes": [*classes], "seed": seed, "reason": reason}


def _unit(
    kept: Kept, results: Results, arms: Sequence[str], condition: str
) -> tuple[Any, dict[str, Features]]:
    """The first seed with features of every arm; if there is none, one with the most of them."""
    frame = results.frame[results.frame["condition"] == condition]
    best: tuple[Any, dict[str, Features]] = (None, {})
    for seed in frame["seed"].unique().tolist():
        found = {arm: kept.of(arm, condition, seed) for arm in arms}
        usable = {arm: own for arm, own in found.items() if own is not None}
        if best[0] is None or len(usable) > len(best[1]):
            best = (seed, usable)
        if len(usable) == len(arms):
            break
    return best


def _panel(
    arm: str, features: Features | None, scores: Scores, condition: str, seed: Any
) -> dict[str, Any]:
    """One arm's points with their labels, and its measures; a reason where it has none."""
    measured = {name: scores.of(arm, condition, Metric(name, name)).get(seed) for name in MEASURED}
    panel = {
        "arm": arm,
        "points": [],
        "labels": [],
        "silhouette": None,
        **{
            name.partition("/")[2]: None if value is None else float(value)
            for name, value in measured.items()
        },
        "reason": None,
    }
    if features is None:
        return panel
    count = len(features.test)
    chosen = np.arange(min(count, MOST_IMAGES)) * count // min(count, MOST_IMAGES)
    h, labels = features.test[chosen], features.test_labels[chosen]
    h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)
    if len(h) < FEWEST_IMAGES:
        return panel | {"reason": f"{len(h)} test images, at least {FEWEST_IMAGES} are needed"}
    if np.ptp(h, axis=0).max() < 1e-6:
        return panel | {"reason": "all images have the same representation"}
    return panel | {
        "points": coordinates(h).round(2).tolist(),
        "labels": labels.tolist(),
        "silhouette": silhouette(h, labels),
    }


def coordinates(h: np.ndarray) -> np.ndarray:
    """(N, 2) t-SNE of representations of unit length, the same at every call on a machine.

    Source: van der Maaten & Hinton 2008, by scikit-learn, from the first principal components.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # With several threads sums have another order at every call, and t-SNE amplifies it.
    with threadpool_limits(1):
        perplexity = min(PERPLEXITY, (len(h) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init="pca", random_state=RANDOM_STATE)
        return tsne.fit_transform(h)


def silhouette(h: np.ndarray, labels: np.ndarray) -> float | None:
    """Mean silhouette of the classes by cosine distance, in [-1, 1]; None where it is not defined.

    Of an image with mean distance a to the others of its class and least mean distance b to another
    class: (b - a) / max(a, b), and 0 where its class has no other image.

    Source: Rousseeuw 1987, by scikit-learn.
    """
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(labels)) < len(labels):
        return None
    return float(silhouette_score(h, labels, metric="cosine"))
