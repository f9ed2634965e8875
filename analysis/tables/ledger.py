"""Tables of the budgets and of the confirmation runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.tables.links import Link, anchor, mlflow_run
from analysis.tables.table import NONE, Table, cost, table


def ledger(records: list[dict]) -> Table:
    count = lambda key: lambda r: str(r[key])  # noqa: E731
    return table(
        "ledger",
        "ledger",
        "Ledger of budgets",
        "Search trials and confirmation runs together; seconds are device-seconds.",
        records,
        ("Arm", lambda r: r["arm"]),
        *[
            ("#" + key.capitalize(), count(key))
            for key in (
                "planned",
                "started",
                "failed",
                "diverged",
                "stopped",
                "finished",
                "confirmed",
            )
        ],
        ("#Epochs, search", lambda r: f"{r['search_epochs']:g}"),
        ("#Epochs, confirmation", lambda r: f"{r['confirm_epochs']:g}"),
        ("#Seconds", lambda r: cost(r["seconds"])),
    )


def runs(records: list[dict], place: Any) -> Table:
    def mlflow(record: dict) -> str:
        href = mlflow_run(place, record["mlflow_run_id"])
        shown = record["mlflow_run_id"] or NONE
        return Link(shown, href) if href else shown

    place = place if isinstance(place, Mapping) else {}
    if not place:
        lead = " Where MLflow shows them was not recorded."
    elif place.get("command"):
        lead = f" The links to MLflow work while this runs: {place['command']}"
    else:
        lead = " The ids lead to MLflow."
    return table(
        "runs",
        "provenance",
        "Confirmation runs",
        "The scores of every seed, above, lead here." + lead,
        records,
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"] or "default"),
        ("#Seed", lambda r: str(r["seed"])),
        ("Status", lambda r: r["status"]),
        ("#Seconds", lambda r: cost(r["seconds"])),
        ("MLflow run", mlflow),
        ("Failure", lambda r: r["failure"] or ""),
        anchors=[anchor(row) for row in range(len(records))],
    )
