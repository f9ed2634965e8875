"""Figures of learning curves and of their differences; no statistics are computed here."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis.figures.style import (
    GREY,
    MOST_FACETS,
    Drawing,
    facet,
    grid,
    legend,
    listed,
    look,
    percent_axis,
    short,
)
from analysis.wording import numbers


def learning(report: dict) -> Drawing | None:
    """Mean learning curves with simultaneous bands, one panel per condition."""
    metric = _curve_metric(report)
    entries = [e for e in report["curves"] if e["metric"] == metric][:MOST_FACETS]
    if not entries:
        return None
    arms, unit = report["design"]["arms"], entries[0]["unit"]
    figure, panels = grid(len(entries))
    for panel, entry in zip(panels, entries, strict=True):
        for arm in entry["arms"]:
            style = look(arms.index(arm["arm"]))
            every = max(1, len(arm["epochs"]) // 8)
            panel.plot(
                arm["epochs"],
                arm["mean"],
                label=short(arm["arm"]),
                linewidth=1.5,
                markersize=3.5,
                markevery=every,
                **style,
            )
            _band(panel, arm["epochs"], arm["low"], arm["high"], style["color"])
        panel.set_title(facet(entry["condition"]))
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if numbers.is_percent(unit):
            percent_axis(panel.yaxis)
    for panel in panels[::2]:
        panel.set_ylabel(numbers.with_unit(metric, unit))
    legend(figure, panels[0])
    alt = listed(
        [
            f"{a['arm']}, {e['condition']}: from {numbers.number(a['mean'][0])} to "
            f"{numbers.number(a['mean'][-1])} at epoch {a['epochs'][-1]:g}"
            for e in entries
            for a in e["arms"]
            if a["mean"]
        ]
    )
    return Drawing(
        "curves",
        "curves",
        f"Learning curves: {metric}",
        "Means over seeds. Bands are simultaneous: 95 % of them contain the whole true curve."
        " x is epochs, not compute; arms may differ in seconds per epoch.",
        f"Learning curves of {metric}. {alt}.",
        figure,
    )


def advantage(report: dict) -> Drawing | None:
    """Difference of learning curves with its band; epochs with a small max-T p are marked."""
    entries = [(e, p) for e in report["curves"] for p in e["pairs"]]
    if not entries:
        return None
    entries = entries[:MOST_FACETS]
    alpha = report["design"]["alpha_per_look"]
    figure, panels = grid(len(entries), height=2.3)
    described = []
    for panel, (entry, pair) in zip(panels, entries, strict=True):
        style = look(report["design"]["arms"].index(pair["b"]))
        panel.axhline(0, color=GREY, linewidth=0.8)
        panel.plot(pair["epochs"], pair["mean_difference"], color=style["color"], linewidth=1.5)
        _band(panel, pair["epochs"], pair["low"], pair["high"], style["color"])
        apart = [
            (e, d)
            for e, d, p in zip(
                pair["epochs"], pair["mean_difference"], pair["p_max_t"], strict=True
            )
            if p <= alpha
        ]
        if apart:
            panel.plot(*zip(*apart, strict=True), "o", color=style["color"], markersize=4)
        panel.set_title(f"{short(pair['b'], 16)} − {short(pair['a'], 16)}{_after(entry)}")
        panel.set_xlabel("epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if numbers.is_percent(entry["unit"]):
            percent_axis(panel.yaxis)
        described.append(
            f"{pair['b']} minus {pair['a']}, {entry['condition']}: apart at "
            f"{len(apart)} of {len(pair['epochs'])} epochs"
        )
    for panel in panels[::2]:
        after = numbers.after_difference(entries[0][0]["unit"])
        panel.set_ylabel("difference" + (f",{after}" if after else ""))
    return Drawing(
        "advantage",
        "curves",
        f"Difference of curves: {entries[0][0]['metric']}",
        "Mean paired difference per epoch with a simultaneous 95 % band. Dots: epochs with max-T"
        f" p ≤ {numbers.p_number(alpha)}, adjusted over all epochs of the curve (not over curves).",
        "Differences of learning curves. " + listed(described) + ".",
        figure,
    )


def _band(panel, epochs, low, high, colour) -> None:
    low, high = (np.array([np.nan if v is None else v for v in side]) for side in (low, high))
    panel.fill_between(epochs, low, high, color=colour, alpha=0.18, linewidth=0)


def _curve_metric(report: dict) -> str | None:
    whole = [e for e in report["curves"] if not e["ends_early"]]
    tested = [e["metric"] for e in whole if e["pairs"]]
    validated = [e["metric"] for e in whole if e["metric"].startswith("val")]
    return next(iter(tested or validated or [e["metric"] for e in whole or report["curves"]]), None)


def _after(entry: dict) -> str:
    return "" if entry["condition"] == "default" else f", {short(entry['condition'], 14)}"
