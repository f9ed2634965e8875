"""Figures of the arms' scores: estimates, paired lines and ranks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from analysis.figures.style import (
    MOST_FACETS,
    PALE,
    WIDTH,
    Drawing,
    facet,
    grid,
    listed,
    look,
    percent_axis,
    short,
)
from analysis.wording import numbers


def estimates(report: dict, entry: dict) -> Drawing | None:
    """Every seed's score in every arm, paired by a line, with means and intervals.

    Args:
        entry: one of the report's metrics, with its unit.
    """
    metric, unit = entry["metric"], entry["unit"]
    cells = [a for a in report["arms"] if a["metric"] == metric]
    conditions = _conditions(report, cells)
    if not conditions:
        return None
    arms = report["design"]["arms"]
    figure, panels = grid(len(conditions))
    for panel, condition in zip(panels, conditions, strict=False):
        own = {a["arm"]: a for a in cells if a["condition"] == condition}
        _paired_lines(panel, own, arms)
        for x, arm in enumerate(arms):
            if arm not in own:
                continue
            a, style = own[arm], look(x)
            panel.plot(
                np.full(len(a["values"]), x),
                a["values"],
                linestyle="none",
                marker=style["marker"],
                color=style["color"],
                markersize=4,
                alpha=0.55,
            )
            if a["ci_low"] is not None:
                panel.plot(
                    [x + 0.22] * 2, [a["ci_low"], a["ci_high"]], color="black", linewidth=1.6
                )
            panel.plot(
                x + 0.22,
                a["mean"],
                marker=style["marker"],
                color="black",
                markersize=6,
                markerfacecolor=style["color"],
            )
        many = len(arms) > 4 or max(map(len, arms)) > 14
        panel.set_xticks(
            range(len(arms)),
            [short(arm) for arm in arms],
            rotation=30 if many else 0,
            ha="right" if many else "center",
        )
        panel.set_xlim(-0.4, len(arms) - 0.4)
        panel.set_title(facet(condition))
        if numbers.is_percent(unit):
            percent_axis(panel.yaxis)
    for panel in panels[::2]:
        panel.set_ylabel(numbers.with_unit(metric, unit))
    alt = listed([f"{a['arm']}, {a['condition']}: mean {numbers.number(a['mean'])}" for a in cells])
    return Drawing(
        f"estimates-{report['metrics'].index(entry) + 1}",
        "estimates",
        metric,
        "Each thin line is a seed, followed through the arms; beside the points are the mean and"
        " its 95 % interval." + _left_out(cells, conditions),
        f"Scores on {metric} by arm and seed. {alt}.",
        figure,
    )


def ranks(report: dict) -> Drawing | None:
    """Critical-difference diagram: a bar joins arms that Nemenyi's test does not separate."""
    leading = report["metrics"][0]["metric"] if report["metrics"] else None
    rows = [o for o in report["omnibus"] if o["metric"] == leading][:3]
    if not rows:
        return None
    arms = report["design"]["arms"]
    k = max(len(o["mean_ranks"]) for o in rows)
    figure = Figure(figsize=(WIDTH, len(rows) * (1.0 + 0.2 * k)))
    panels = np.atleast_1d(figure.subplots(len(rows), 1))
    for panel, row in zip(panels, rows, strict=True):
        order = sorted(row["mean_ranks"], key=row["mean_ranks"].get)
        bars = len(row["groups"])
        for i, arm in enumerate(order):
            x, y = row["mean_ranks"][arm], -0.5 * bars - 0.8 - 0.6 * i
            style = look(arms.index(arm))
            panel.plot([x, x], [0, y], color=PALE, linewidth=0.8, zorder=0)
            panel.plot(x, 0, marker=style["marker"], color=style["color"], clip_on=False)
            panel.text(x + 0.03, y, f"{short(arm)}  {x:.2f}", va="center", fontsize=8.5)
        for i, group in enumerate(row["groups"]):
            reach = [row["mean_ranks"][arm] for arm in group]
            panel.plot(
                [min(reach) - 0.02, max(reach) + 0.02],
                [-0.5 * (i + 1)] * 2,
                color="black",
                linewidth=3,
                solid_capstyle="butt",
            )
        panel.set_xlim(0.9, k + 0.6)
        panel.set_ylim(-0.5 * bars - 0.9 - 0.6 * len(order), 0.2)
        panel.xaxis.tick_top()
        panel.set_xticks(range(1, k + 1))
        panel.spines["top"].set_visible(True)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.set_yticks([])
        panel.set_title(f"{facet(row['condition'])}   CD = {row['critical_difference']:.2f}", pad=8)
    alt = listed(
        [
            f"{o['condition']}: "
            + ", ".join(f"{arm} {rank:.2f}" for arm, rank in o["mean_ranks"].items())
            for o in rows
        ]
    )
    return Drawing(
        "ranks",
        "secondary",
        f"Mean ranks: {rows[0]['metric']}",
        "Mean rank over seeds, 1 is best. A bar joins arms whose ranks lie within Nemenyi's"
        " critical difference (CD). Secondary: it decides no claim.",
        f"Critical-difference diagram of mean ranks. {alt}.",
        figure,
    )


def _paired_lines(panel, own: dict, arms: list[str]) -> None:
    for x, (left, right) in enumerate(pairwise(arms)):
        if left not in own or right not in own:
            continue
        there = dict(zip(own[right]["seeds"], own[right]["values"], strict=True))
        for seed, value in zip(own[left]["seeds"], own[left]["values"], strict=True):
            if seed in there:
                panel.plot([x, x + 1], [value, there[seed]], color=PALE, linewidth=0.7, zorder=0)


def _conditions(report: dict, cells: list[dict]) -> list[str]:
    own = {a["condition"] for a in cells}
    return [c for c in report["design"]["conditions"] if c in own][:MOST_FACETS]


def _left_out(cells: list[dict], drawn: list[str]) -> str:
    rest = len({a["condition"] for a in cells} - set(drawn))
    return f" {rest} more conditions are in the tables." if rest else ""
