"""The ledger: what each arm was given, and where the contest was unequal.

One row per arm from runs.csv: what was planned, started, failed, diverged, stopped early, finished
and confirmed, and the epochs and device-seconds spent.
"""

from __future__ import annotations

import json

import pandas as pd

from analysis.inputs.runs_table import SEARCHED

# Budgets of two arms that differ by more than this are flagged on the report's first page.
TOLERATED = 0.05


def ledger(runs: pd.DataFrame | None) -> list[dict]:
    """One mapping per arm, in order of first appearance."""
    if runs is None:
        return []
    rows = []
    for arm, own in runs.groupby("arm", sort=False):
        search = own[own["phase"].isin(SEARCHED)]
        confirm = own[own["phase"] == "confirm"]
        by_status = own["status"].value_counts()
        row = {"arm": arm, "planned": len(own), "started": int((own["status"] != "planned").sum())}
        row |= {
            status: int(by_status.get(status, 0))
            for status in ("failed", "diverged", "stopped", "finished", "running")
        }
        row |= {
            "confirmed": int((confirm["status"] == "finished").sum()),
            "confirm_planned": len(confirm),
            "search_planned": len(search),
        }
        for phase, part in (("search", search), ("confirm", confirm)):
            row[f"{phase}_epochs"] = float(part["epochs"].sum())
            row[f"{phase}_planned_epochs"] = float(part["planned_epochs"].sum())
            row[f"{phase}_seconds"] = float(part["seconds"].sum())
        row["budget"] = _budget(own)
        row["epochs"] = row["search_epochs"] + row["confirm_epochs"]
        row["seconds"] = row["search_seconds"] + row["confirm_seconds"]
        rows.append(row)
    return rows


def _budget(runs: pd.DataFrame) -> str:
    """What bounds these trainings: `epochs`, or `views` or `seconds` where all of them say so."""
    units = set()
    for text in runs["config"].dropna() if "config" in runs else ():
        try:
            units.add(next(iter(json.loads(text).get("budget") or {"epochs": 0})))
        except (ValueError, AttributeError, StopIteration):
            units.add("epochs")
    return units.pop() if len(units) == 1 else "epochs"


def budget_warnings(rows: list[dict]) -> list[str]:
    """Where arms got unequal shares (over 5 % of trials, runs or epochs), in words.

    Arms that are given the same views or seconds differ in epochs because they must. What early
    stopping leaves unspent differs by design; trials that broke down have warnings of their own.
    """
    by_epochs = any(row["budget"] == "epochs" for row in rows)
    found = []
    for key, what in (
        ("search_planned", "planned search trials"),
        ("search_planned_epochs", "planned search epochs"),
        ("confirm_planned", "planned confirmation runs"),
        ("confirm_planned_epochs", "planned confirmation epochs"),
        ("confirm_epochs", "epochs spent in the confirmation"),
    ):
        if key.endswith("_epochs") and not by_epochs:
            continue
        amounts = {row["arm"]: row[key] for row in rows}
        if len(amounts) < 2 or max(amounts.values()) <= 0:
            continue
        most, least = max(amounts, key=amounts.get), min(amounts, key=amounts.get)
        gap = 1 - amounts[least] / amounts[most]
        if gap > TOLERATED:
            found.append(
                f"Unequal budgets: {most} had {amounts[most]:g} {what}, "
                f"{least} {amounts[least]:g} ({100 * gap:.0f} % fewer)."
            )
    return found


def failure_warnings(rows: list[dict]) -> list[str]:
    """Runs that broke down or never ran, in words."""
    found = []
    for row in rows:
        broken = [f"{row[s]} {s}" for s in ("failed", "diverged") if row[s]]
        if broken:
            found.append(f"{row['arm']}: {' and '.join(broken)} of {row['planned']} runs.")
        missing = row["confirm_planned"] - row["confirmed"]
        if missing > 0:
            found.append(
                f"{row['arm']}: {row['confirmed']} of {row['confirm_planned']} "
                "confirmation runs finished."
            )
    return found
