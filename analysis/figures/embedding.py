"""The figure of the representations: t-SNE of test images, arms side by side."""

from __future__ import annotations

from math import ceil

import numpy as np
from matplotlib.figure import Figure

from analysis.figures.style import COLOURS, MARKS, PALE, WIDTH, Drawing, facet, listed, short
from analysis.wording import numbers

COLUMNS = 3
MOST_CLASSES = 10  # with a look of their own


def embedding(report: dict) -> Drawing | None:
    """One panel for each arm: its test images by class, and below them its measures."""
    found = report["embedding"]
    if not found or not any(arm["points"] for arm in found["arms"]):
        return None
    arms, classes = found["arms"], found["classes"]
    columns = min(COLUMNS, len(arms))
    rows = ceil(len(arms) / columns)
    side = WIDTH / max(2, columns)
    figure = Figure(figsize=(side * columns, (side + 0.6) * rows + 0.5))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in panels[len(arms) :]:
        spare.remove()
    for panel, arm in zip(panels, arms, strict=False):
        _points(panel, arm, len(classes))
        panel.set_title(short(arm["arm"]))
        panel.set_xlabel(measures(arm), fontsize=8)
        panel.set_xticks([])
        panel.set_yticks([])
    shown = classes[:MOST_CLASSES]
    handles = [panels[0].plot([], [], linestyle="none", **_look(i))[0] for i in range(len(shown))]
    figure.legend(
        handles, [short(name) for name in shown], loc="outside lower center", ncols=5, fontsize=8
    )
    others = f" The other {len(classes) - len(shown)} classes are grey." * (len(classes) > 10)
    return Drawing(
        "embedding",
        "embedding",
        f"Test images in two dimensions{': ' * bool(facet(found['condition']))}"
        f"{facet(found['condition'])}",
        f"t-SNE (perplexity 30) of up to 1,000 test images of one run of each arm, seed"
        f" {found['seed']}; colours are classes.{others} Axes have no unit, and neither distances"
        " between clusters nor their sizes mean anything. It decides no claim.",
        f"t-SNE of test representations by class. {listed([_alt(arm) for arm in arms])}.",
        figure,
    )


def measures(arm: dict) -> str:
    """What stands below a panel; what the run did not measure is left out."""
    if not arm["points"]:
        return arm["reason"]
    parts = []
    if arm["silhouette"] is not None:
        parts.append(f"silhouette {numbers.number(arm['silhouette'], 2)}")
    if arm["knn_top1"] is not None:
        parts.append(f"kNN {100 * arm['knn_top1']:.1f} %")
    first = ", ".join(parts)
    parts = [
        f"{name} {numbers.number(arm[name], 2)}"
        for name in ("alignment", "uniformity")
        if arm[name] is not None
    ]
    return "\n".join(line for line in (first, ", ".join(parts)) if line)


def _points(panel, arm: dict, classes: int) -> None:
    points, labels = np.array(arm["points"]).reshape(-1, 2), np.array(arm["labels"])
    rest = labels >= MOST_CLASSES
    panel.plot(*points[rest].T, linestyle="none", marker=".", markersize=2, color=PALE)
    for i in range(min(classes, MOST_CLASSES)):
        style = _look(i) | {"markersize": 2.4}
        panel.plot(*points[labels == i].T, linestyle="none", alpha=0.8, **style)


def _look(index: int) -> dict:
    """Colour and mark of a class; beyond the eight colours marks are hollow, and move on by one."""
    again, colour = divmod(index, len(COLOURS))
    return {
        "color": COLOURS[colour],
        "marker": MARKS[(index + again) % len(MARKS)],
        "markersize": 4,
        "markeredgewidth": 0.6 if again else 0,
        "markerfacecolor": "none" if again else COLOURS[colour],
    }


def _alt(arm: dict) -> str:
    return f"{arm['arm']}: {measures(arm)}".replace("\n", ", ")
