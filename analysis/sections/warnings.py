"""The warnings on the report's first page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.inputs import Plan
from analysis.sections import ledger
from analysis.wording import numbers

OVERRIDDEN = {
    "better": "directions of claimed metrics",
    "declared": "claims, or how they are decided,",
}
RECORDED = ", which stands as study.yaml in the study's folder"


def warnings_of(
    report: dict, plan: Plan, notes: list[str], replicates: Mapping[Any, Any]
) -> list[str]:
    """Everything that a reader should know before the answers; `replicates`: seed -> replicate."""
    design, found = report["design"], []
    if not plan.declared:
        found.append(
            "No plan was given: every comparison is exploratory, and a confirmation on"
            " fresh seeds is needed before it is claimed."
        )
    if plan.overridden:
        found.append(
            f"{' and '.join(OVERRIDDEN.get(o, o) for o in plan.overridden)} differ from the plan's"
            f"{RECORDED if 'declared' in plan.overridden else ''}: verdicts are exploratory."
        )
    if design["can_reach"] is False and design["n_pairs"]:
        found.append(
            f"The design cannot reach significance: {design['n_pairs']} pairs reach p ="
            f" {numbers.p_number(design['p_min'])} at best; it takes {design['units_needed']}"
            f" {design['unit_of_analysis']}s."
        )
    if design["scope"] == "method" and design["unit_of_analysis"] == "seed":
        found.append(
            "A single search ran: no verdict about methods is possible. Repeat the search"
            " (search.replicates), or declare `scope: configuration`."
        )
    if design["unplanned_looks"]:
        whys = "; ".join(look["why"] for look in design["looks"])
        found.append(
            "The results were looked at before the planned number of units without this"
            f" being planned: every verdict is exploratory and stays undecided ({whys})."
        )
    found += ledger.environment_warnings(report["environments"])
    found += ledger.budget_warnings(report["ledger"]) + ledger.failure_warnings(report["ledger"])
    broken = report["missing"]
    if broken and not report["ledger"]:
        found.append(f"{len(broken)} runs broke down; they are listed under missing data.")
    if broken and plan.chance is None:
        found.append(
            "Runs broke down and no chance level was given, so it cannot be checked"
            " whether verdicts depend on them: pass --chance."
        )
    absent = dict.fromkeys(
        (d["arm"], d["condition"], d["seed"])
        for c in report["comparisons"]
        for d in c["dropped"]
        if d["reason"] == "absent"
    )
    if absent:
        arm, condition, seed = next(iter(absent))
        under = "" if condition == "default" else f" under {condition}"
        within = f" in replicate {replicates[seed]}" if seed in replicates else ""
        found.append(
            f"{len(absent)} planned or half-paired scores are absent from the table, the first of"
            f" {arm}{under} on seed {seed}{within}; comparisons rest on complete pairs only. Give"
            " runs that broke down a row with status failed or diverged."
        )
    if len(design["arms"]) < 2:
        found.append("Only one arm is in the table: there is nothing to compare it with.")
    return found + notes
