"""What do costs, budgets and the search look like? Draws the report's numbers, computes none."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis import words
from analysis.metric import metric_order
from analysis.style import (
    GREY,
    PALE,
    WIDTH,
    Drawing,
    grid,
    legend,
    listed,
    look,
    percent_axis,
    short,
)

STATUS_STYLE = {
    "finished": ("#4c78a8", ""),
    "stopped": ("#c9d3df", ""),
    "diverged": ("#D55E00", ""),
    "failed": ("#222222", ""),
    "running": ("white", ""),
}


def trade_off(report: dict) -> Drawing | None:
    """Accuracy against cost, with the Pareto front of the means."""
    rows = report["cost"]["trade_off"]
    if not rows:
        return None
    unit, metric = rows[0]["unit"], metric_order(report)[0]
    rows = [r for r in rows if r["unit"] == unit and r["metric"] == metric]
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
            style = look(arms.index(r["arm"]))
            style.pop("linestyle")
            for low, high, across in (
                (r["ci_low"], r["ci_high"], False),
                (r["cost_ci_low"], r["cost_ci_high"], True),
            ):
                if low is not None:
                    ends, fixed = [low, high], [r["cost" if not across else "mean"]] * 2
                    panel.plot(
                        *((ends, fixed) if across else (fixed, ends)),
                        color=style["color"],
                        linewidth=1,
                    )
            panel.plot(
                r["cost"],
                r["mean"],
                **style,
                linestyle="none",
                markersize=7,
                label=short(r["arm"]),
                markerfacecolor=style["color"] if r["pareto"] else "white",
            )
        panel.margins(x=0.15, y=0.15)
        panel.set_title("" if condition == "default" else short(condition, 40))
        panel.set_xlabel(f"{unit} per run")
        if words.is_percent(metric):
            percent_axis(panel.yaxis)
    for panel in panels[::2]:
        panel.set_ylabel(metric + (" (%)" if words.is_percent(metric) else ""))
    legend(figure, panels[0])
    alt = listed(
        [
            f"{r['arm']}, {r['condition']}: {words.number(r['mean'])} at {r['cost']:.3g} "
            f"{unit}{', on the front' if r['pareto'] else ''}"
            for r in rows
        ]
    )
    return Drawing(
        "trade-off",
        "cost",
        f"{metric} against {unit}",
        "Means with 95 % intervals both ways. Filled marks are on the Pareto front of the means,"
        " which the line joins; where intervals overlap, membership is not certain.",
        f"Score against cost. {alt}.",
        figure,
    )


def ledger(report: dict) -> Drawing | None:
    """What became of every planned trial and run, per arm."""
    rows = report["ledger"]
    if not rows:
        return None
    figure = Figure(figsize=(WIDTH, 1.0 + 0.42 * len(rows)))
    left, right = figure.subplots(1, 2, sharey=True)
    for y, row in enumerate(rows):
        start = 0
        for status, (colour, hatch) in STATUS_STYLE.items():
            left.barh(
                y,
                row[status],
                left=start,
                height=0.6,
                color=colour,
                hatch=hatch,
                edgecolor=GREY,
                linewidth=0.6,
                label=status if y == 0 else None,
            )
            start += row[status]
        right.barh(
            y,
            row["search_epochs"],
            height=0.6,
            color="#c9d3df",
            edgecolor=GREY,
            linewidth=0.6,
            label="search" if y == 0 else None,
        )
        right.barh(
            y,
            row["confirm_epochs"],
            left=row["search_epochs"],
            height=0.6,
            color="#4c78a8",
            edgecolor=GREY,
            linewidth=0.6,
            label="confirmation" if y == 0 else None,
        )
    left.set_yticks(range(len(rows)), [short(row["arm"]) for row in rows])
    left.set_ylim(len(rows) - 0.4, -0.6)
    left.set_xlabel("trials and runs")
    right.set_xlabel("epochs")
    for panel in (left, right):
        panel.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=3,
            fontsize=7.5,
            handlelength=1.2,
            columnspacing=1,
        )
    alt = listed(
        [
            f"{r['arm']}: {r['finished']} finished, {r['stopped']} stopped early, "
            f"{r['diverged']} diverged, {r['failed']} failed of {r['planned']} planned; "
            f"{r['epochs']:g} epochs"
            for r in rows
        ]
    )
    return Drawing(
        "ledger",
        "ledger",
        "What every arm was given",
        "Left: what became of each planned trial and run. Right: epochs spent in each phase.",
        f"Ledger. {alt}.",
        figure,
    )
