"""The table of epochs at which learning curves differ."""

from __future__ import annotations

from analysis.tables.table import Table, ranges, table
from analysis.wording import p_number


def epochs_apart(entries: list[dict]) -> Table:
    rows = [
        {"metric": e["metric"], "condition": e["condition"], **p}
        for e in entries
        for p in e["pairs"]
    ]
    return table(
        "curves",
        "curves",
        "When curves are apart",
        "Smallest max-T p over epochs, adjusted over the epochs of a curve, and the epochs with"
        " p ≤ .05. Without a declared window these rows are exploratory.",
        rows,
        ("Contrast", lambda r: f"{r['b']} − {r['a']}"),
        ("Metric", lambda r: r["metric"]),
        ("Condition", lambda r: r["condition"]),
        ("#n", lambda r: str(r["n"])),
        ("#Smallest p", lambda r: p_number(min(r["p_max_t"]))),
        (
            "Epochs apart",
            lambda r: ranges(
                [e for e, p in zip(r["epochs"], r["p_max_t"], strict=True) if p <= 0.05]
            ),
        ),
    )
