"""The figure of the ledger: what became of every planned trial and run."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures.style import GREY, WIDTH, Drawing, listed, short

STATUS_STYLE = {
    "finished": ("#4c78a8", ""),
    "stopped": ("#c9d3df", ""),
    "diverged": ("#D55E00", ""),
    "failed": ("#222222", ""),
    "running": ("white", ""),
}


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
