"""The figure of accuracy against cost."""

from __future__ import annotations

from analysis.figures.style import PALE, Drawing, grid, legend, listed, look, percent_axis, short
from analysis.wording import numbers


def trade_off(report: dict) -> Drawing | None:
    """Accuracy against cost, with the Pareto front of the means; None where all cost the same."""
    metric, spent = report["cost"]["metric"], report["cost"]["differs"]
    rows = [
        r for r in report["cost"]["trade_off"] if r["metric"] == metric and r["cost_unit"] == spent
    ]
    if not rows:
        return None
    unit = rows[0]["unit"]
    conditions = list(dict.fromkeys(r["condition"] for r in rows))
    arms = report["design"]["arms"]
    figure, panels = grid(len(conditions))
    for panel, condition in zip(panels, conditions, strict=False):
        own = sorted((r for r in rows if r["condition"] == condition), key=lambda r: r["cost"])
        front = [r for r in own if r["pareto"]]
        panel.step(
            [r["cost"] for r in front],
            [r["mean"] for r in front],
            where="post",
            color=PALE,
            linewidth=1.5,
            zorder=0,
        )
        for r in own:
            _mean_and_intervals(panel, r, look(arms.index(r["arm"])))
        panel.margins(x=0.15, y=0.15)
        panel.set_title("" if condition == "default" else short(condition, 40))
        panel.set_xlabel(f"{spent} per run")
        if numbers.is_percent(unit):
            percent_axis(panel.yaxis)
    for panel in panels[::2]:
        panel.set_ylabel(numbers.with_unit(metric, unit))
    legend(figure, panels[0])
    alt = listed(
        [
            f"{r['arm']}, {r['condition']}: {numbers.number(r['mean'])} at {r['cost']:.3g} "
            f"{spent}{', on the front' if r['pareto'] else ''}"
            for r in rows
        ]
    )
    return Drawing(
        "trade-off",
        "cost",
        f"{metric} against {spent}",
        "Means with 95 % intervals both ways. Filled marks are on the Pareto front of the means,"
        " which the line joins; where intervals overlap, membership is not certain.",
        f"Score against cost. {alt}.",
        figure,
    )


def _mean_and_intervals(panel, row: dict, style: dict) -> None:
    """An arm's mean score at its mean cost, with an interval in either direction."""
    style = {name: value for name, value in style.items() if name != "linestyle"}
    if row["ci_low"] is not None:
        ends, at = [row["ci_low"], row["ci_high"]], [row["cost"]] * 2
        panel.plot(at, ends, color=style["color"], linewidth=1)
    if row["cost_ci_low"] is not None:
        ends, at = [row["cost_ci_low"], row["cost_ci_high"]], [row["mean"]] * 2
        panel.plot(ends, at, color=style["color"], linewidth=1)
    panel.plot(
        row["cost"],
        row["mean"],
        **style,
        linestyle="none",
        markersize=7,
        label=short(row["arm"]),
        markerfacecolor=style["color"] if row["pareto"] else "white",
    )
