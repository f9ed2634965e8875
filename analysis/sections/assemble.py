"""The report as one mapping, assembled from its sections.

It brings table, plan, runs and provenance together; report.json holds it and every rendering reads
it. No file is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.inputs import Plan, parse_metric, selected_on
from analysis.inputs.results_table import Results
from analysis.inputs.runs_table import environments, units_ended, with_costs
from analysis.report_json import clean
from analysis.representations import Kept, embedding, robustness
from analysis.sections import cost, curves, ledger, ranks, search
from analysis.sections.design import design, published, versions
from analysis.sections.scores import (
    arm_scores,
    compared_metrics,
    metrics_section,
    ordered,
    reported_metrics,
    training_helps,
    with_finals,
)
from analysis.sections.warnings import warnings_of
from analysis.verdicts import Rules, Scores, comparisons
from analysis.wording import absent
from analysis.wording import sentences as words

SCHEMA = 4


def assemble_report(
    results: Results,
    plan: Plan,
    runs: pd.DataFrame | None,
    provenance: dict[str, Any],
    importance: Mapping[str, Any] | None = None,
    kept: Path | None = None,
) -> dict[str, Any]:
    """The report as one mapping, in the shape of docs/statistics.md; nan-free."""
    results, notes = with_finals(results)
    results = with_costs(results, runs, plan.claimed_costs)
    arms = ordered(results.arms, plan.arms)
    conditions = ordered(results.conditions, plan.conditions)
    reported = reported_metrics(results, plan)
    metrics, undirected = compared_metrics(reported, plan, results.source)
    looks = _looks(provenance, plan, units_ended(results, runs, plan.replicates))
    rules = Rules(
        alpha=plan.alpha / plan.looks_planned,
        margin=plan.margin,
        chance=plan.chance,
        metrics=plan.meanings,
        scope=plan.scope or ("method" if results.unit == "replicate" else "configuration"),
        correction=plan.correction,
        looks=plan.looks,
        unplanned_looks=plan.declared and _unplanned(looks, plan),
        exploratory=bool(plan.overridden),
    )
    scores = Scores(results, plan.seeds)
    declared = comparisons.contrasts_of_claims(plan)
    others = comparisons.other_contrasts(arms, conditions, metrics, declared)
    ids = [claim.id for claim in plan.claims]
    compared = comparisons.compare(scores, declared, rules, declared=True, ids=ids)
    compared += comparisons.compare(scores, others, rules, declared=False, ids=[])
    for record in compared:
        record["trials"] = plan.trials
        record["selected_on"] = selected_on(parse_metric(record["metric"]), plan.search_metrics)
        record["absent"] = absent(record)
    ran_on = environments(runs)
    for contrast, record in zip([*declared, *others], compared, strict=True):
        record["mixed_units"] = ledger.mixed_units(
            ran_on, (contrast.a, contrast.b), contrast.conditions,
            {seed: results.unit_of(seed) for seed in record["seeds"]},
        )  # fmt: skip
    for claim, record in zip(plan.claims, compared, strict=False):
        if claim.kind == "curve":
            record["early_minus_late"] = curves.early_minus_late(
                scores, record, claim.metric, curves.last_figure(results, claim.metric.base)
            )
    shown = arm_scores(scores, arms, conditions, reported, plan.meanings)
    report = {
        "schema": SCHEMA,
        "title": plan.name or "Comparison",
        "question": plan.question,
        "design": design(plan, rules, compared, arms, conditions, reported, looks),
        "warnings": [],
        "metrics": metrics_section(plan, shown, compared),
        "arms": shown,
        "comparisons": compared,
        "claims": _claims(plan, compared),
        "published": published(plan, compared),
        "omnibus": ranks.omnibus(scores, arms, conditions, metrics, plan.meanings, plan.alpha),
        "next_study": words.next_study(compared),
        "training_helps": training_helps(scores, arms, conditions, plan.meanings),
        "embedding": embedding(_kept(kept, results), scores, results, plan, arms),
        "robustness": robustness(_kept(kept, results), scores, results, plan, compared),
        "curves": curves.curves(results, plan, arms, conditions),
        "cost": cost.cost(results, plan, shown, runs),
        "ledger": ledger.ledger(runs),
        "environments": ledger.environments(runs),
        "search": search.search(runs, results, plan, importance),
        "missing": _missing(results),
        "runs": _runs(runs),
        "provenance": provenance,
        "versions": versions(),
    }
    noted = [*results.notes, *notes, *undirected]
    report["warnings"] = warnings_of(report, plan, noted, results.replicates)
    return clean(report)


def _kept(folder: Path | None, results: Results) -> Kept | None:
    return Kept(folder, results.replicates) if folder else None


def _claims(plan: Plan, compared: list[dict]) -> list[dict]:
    records = {c["claim"]: c for c in compared if c["claim"] is not None}
    answered = comparisons.answers(plan, compared)
    for row in answered:
        row["sentence"] = words.claim_sentence(row["asks"], row["verdict"], records[row["id"]])
    return answered


def _missing(results: Results) -> list[dict]:
    return [
        {"arm": arm, "condition": condition, "seed": seed, "reason": reason}
        for (arm, condition, seed), reason in results.failures.items()
    ]


def _runs(runs: pd.DataFrame | None) -> list[dict]:
    """Confirmation runs with their ids, so that every number can be followed to its runs."""
    if runs is None:
        return []
    columns = [
        "arm",
        "condition",
        "seed",
        "status",
        "epochs",
        "seconds",
        "mlflow_run_id",
        "failure",
    ]
    return runs.loc[runs["phase"] == "confirm", columns].replace("", None).to_dict("records")


def _looks(provenance: Mapping[str, Any], plan: Plan, units: int) -> list[dict[str, Any]]:
    """Looks before the planned units, those aside that `confirm.looks` plans.

    A table with fewer units than were planned is one itself: nobody knows that there will be more.
    """
    logged = provenance.get("looks") or []
    looks = [look if isinstance(look, dict) else {"why": str(look)} for look in logged]
    looks = [{"why": f"after {look.get('units')} units"} | look for look in looks]
    known = {look.get("units") for look in looks}
    if plan.planned_n and units < plan.planned_n and units not in known:
        looks.append({"units": units, "why": f"{units} of {plan.planned_n} units are there"})
    return [look for look in looks if look.get("unplanned") or not _covered(look, plan)]


def _covered(look: Mapping[str, Any], plan: Plan) -> bool:
    """Whether `confirm.looks` plans it; beyond the last one the e-process allows any."""
    units = look.get("units")
    beyond = bool(plan.looks) and isinstance(units, int) and units > plan.looks[-1]
    return bool(look.get("final")) or units in plan.looks or beyond


def _unplanned(looks: list[dict[str, Any]], plan: Plan) -> bool:
    """Whether there are more looks than `looks` allows beside the last, or one that none allows."""
    return len(looks) > plan.looks_planned - 1 or any(look.get("unplanned") for look in looks)
