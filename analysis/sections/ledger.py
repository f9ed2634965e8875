"""The ledger: what each arm was given, and where the contest was unequal.

One row per arm from runs.csv: what was planned, started, failed, diverged, stopped early, finished
and confirmed, and the epochs and device-seconds spent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.inputs.runs_table import SEARCHED, environment_of

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


def environments(runs: pd.DataFrame | None) -> list[dict]:
    """The environments in which runs were computed, each with its number of runs."""
    if runs is None:
        return []
    counted = runs.loc[runs["environment"] != "", "environment"].value_counts(sort=False)
    found = [
        {"environment": environment_of(text), "runs": int(count)} for text, count in counted.items()
    ]
    return [row for row in found if row["environment"]]


def environment_warnings(rows: list[dict]) -> list[str]:
    """Runs from several environments, with what differs between them, in words."""
    if len(rows) < 2:
        return []
    names = sorted({name for row in rows for name in row["environment"]})
    differing = [n for n in names if len({row["environment"].get(n) for row in rows}) > 1]
    parts = [
        f"{row['runs']} runs with "
        + ", ".join(f"{name} {row['environment'].get(name, 'not set')}" for name in differing)
        for row in rows
    ]
    return [
        "Runs come from different environments, where the same training gives other numbers:"
        f" {'; '.join(parts)}."
    ]


def mixed_units(
    ran_on: Mapping[tuple, Mapping[str, str]],
    arms: Sequence[str],
    conditions: Sequence[str],
    units: Mapping[object, object],
) -> int:
    """How many units compare runs of different environments.

    Args:
        ran_on: (arm, condition, seed) -> environment.
        arms, conditions: that are compared.
        units: seed -> unit.
    """
    mixed = set()
    for seed, unit in units.items():
        known = [ran_on[k] for a in arms for c in conditions if (k := (a, c, seed)) in ran_on]
        if any(environment != known[0] for environment in known):
            mixed.add(unit)
    return len(mixed)


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
