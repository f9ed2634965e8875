"""The forest plot: differences with their intervals and verdicts."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures.style import (
    GREY,
    MARGIN_FILL,
    PALE,
    WIDTH,
    Drawing,
    listed,
    percent_axis,
    short,
)
from analysis.wording import numbers

MOST_FOREST_ROWS, MOST_EXPLORATORY_ROWS = 30, 12


def forest(report: dict) -> Drawing | None:
    """Mean differences with their intervals; the margin is shaded."""
    rows = [c for c in report["comparisons"] if c["ci_low"] is not None]
    declared = [c for c in rows if c["declared"]]
    every = declared or rows
    if not every:
        return None
    # An axis has one unit.
    unit = every[0]["unit"]
    rows = [c for c in every if c["unit"] == unit]
    rows = rows[: MOST_FOREST_ROWS if declared else MOST_EXPLORATORY_ROWS]
    left = len(every) - len(rows)
    figure = Figure(figsize=(WIDTH, 1.0 + 0.52 * len(rows)))
    axes = figure.subplots()
    margin = rows[0]["margin"]
    if margin:
        axes.axvspan(-margin, margin, color=MARGIN_FILL, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    for y, c in enumerate(rows):
        _difference(axes, c, y)
    axes.set_yticks(range(len(rows)), [_row_label(c) for c in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if numbers.is_percent(unit):
        percent_axis(axes.xaxis)
    in_unit = "percentage points" if numbers.is_percent(unit) else unit or "in the metric's unit"
    axes.set_xlabel(f"difference, {in_unit}")
    alt = listed(
        [
            f"{_row_label(c, ' ')}: {numbers.difference(c['mean_difference'], unit)} "
            f"({numbers.interval(c['ci_low'], c['ci_high'], unit)}), {c['verdict']}"
            for c in rows
        ]
    )
    shaded = " The shaded band is the margin of practical equivalence." if margin else ""
    return Drawing(
        "forest",
        "answers",
        "Differences between arms",
        "Mean paired difference with its 95 % interval; thin: the simultaneous one. One row per "
        + ("declared claim." if declared else "pair of arms (exploratory).")
        + shaded
        + " Filled: better or worse; grey: equivalent; open: undecided."
        + (f" {left} more are in the tables." if left else ""),
        "Forest plot. " + alt + ".",
        figure,
    )


def _difference(axes, c: dict, y: int) -> None:
    """A row: mean difference, interval, and the verdict beside the axes."""
    filled = {"better": "black", "worse": "black", "equivalent": PALE}
    low, high = c["simultaneous_ci"]
    if low is not None:
        axes.plot([low, high], [y, y], color="black", linewidth=0.6)
    axes.plot([c["ci_low"], c["ci_high"]], [y, y], color="black", linewidth=1.8)
    face = filled.get(c["verdict"], "white")
    mean = c["mean_difference"]
    axes.plot(mean, y, "o", color="black", markersize=6, markerfacecolor=face)
    at = ("axes fraction", "data")
    axes.annotate(c["verdict"].replace("_", " "), (1.02, y), xycoords=at, va="center")


def _row_label(c: dict, joint: str = "\n") -> str:
    claim = f"{c['claim']}: " if c["claim"] else ""
    where = "" if c["condition"] == "default" else f", {c['condition']}"
    return (
        f"{claim}{short(c['b'], 20)} − {short(c['a'], 20)}{joint}"
        f"{short(numbers.base_metric(c['metric']) + where, 46)}"
    )
