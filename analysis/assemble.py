"""What stands in a report?

Brings table, plan, runs and provenance together into the one mapping that report.json holds and
that every rendering reads. No file is written here.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd

import analysis
from analysis import claims, controls, cost, curves, ledger, omnibus, power, search, words
from analysis.absent import absent
from analysis.claims import Rules
from analysis.metric import Metric
from analysis.plan import Plan
from analysis.scores import Scores
from analysis.statistics import CONFIDENCE, RNG_SEED, describe
from analysis.table import Results

SCHEMA = 1
LIBRARIES = ("numpy", "scipy", "statsmodels", "pandas", "scikit-learn", "matplotlib")


def assemble(
    results: Results,
    plan: Plan,
    runs: pd.DataFrame | None,
    provenance: dict[str, Any],
    importance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The report as one mapping, in the shape of docs/statistics.md; nan-free."""
    results, notes = _with_finals(results)
    arms = _ordered(results.arms, plan.arms)
    conditions = _ordered(results.conditions, plan.conditions)
    metrics = _metrics(results, plan)
    looks = [look for look in provenance.get("looks") or [] if not _is_final(look)]
    rules = Rules(
        alpha=plan.alpha / plan.looks_planned,
        margin=plan.margin,
        chance=plan.chance,
        unplanned_looks=plan.declared and len(looks) > plan.looks_planned - 1,
        exploratory=bool(plan.overridden),
    )
    scores = Scores(results, plan.seeds)
    declared = claims.contrasts_of_claims(plan)
    others = claims.other_contrasts(arms, conditions, metrics, declared)
    ids = [claim.id for claim in plan.claims]
    compared = claims.compare(scores, declared, rules, declared=True, ids=ids)
    compared += claims.compare(scores, others, rules, declared=False, ids=[])
    for record in compared:
        record["absent"] = absent(record)
    _add_early_minus_late(plan, compared, scores, results)
    shown = _arms(scores, arms, conditions, metrics)
    report = {
        "schema": SCHEMA,
        "title": plan.name or "Comparison",
        "question": plan.question,
        "design": _design(plan, rules, compared, arms, conditions, metrics, looks),
        "warnings": [],
        "arms": shown,
        "comparisons": compared,
        "claims": _claims(plan, compared),
        "omnibus": omnibus.omnibus(scores, arms, conditions, metrics, plan.alpha),
        "next_study": words.next_study(compared),
        "training_helps": controls.training_helps(scores, arms, conditions),
        "curves": curves.curves(results, plan, arms, conditions),
        "cost": cost.cost(results, plan, shown, runs),
        "ledger": ledger.ledger(runs),
        "search": search.search(runs, results, plan, importance),
        "missing": _missing(results),
        "runs": _runs(runs),
        "provenance": provenance,
        "versions": _versions(),
    }
    report["warnings"] = _warnings(report, plan, [*results.notes, *notes])
    return clean(report)


def clean(value: Any) -> Any:
    """Plain JSON values: numpy numbers as Python's, nan and infinities as None."""
    if isinstance(value, dict):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [clean(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return (
        value if isinstance(value, str) else None if value is None or value is pd.NA else str(value)
    )


def _with_finals(results: Results) -> tuple[Results, list[str]]:
    """A table of curves only is judged by its last common epoch, never by its best one."""
    if len(results.final) or not len(results.curves):
        return results, []
    curves_ = results.curves
    last = curves_.groupby(["arm", "condition", "seed", "metric"])["epoch"].max().min()
    finals = curves_[curves_["epoch"] == last].assign(epoch=np.nan)
    frame = pd.concat([results.frame, finals], ignore_index=True)
    note = f"The table has no final figures; the last epoch that all runs have ({last:g}) is used."
    return Results(frame, results.failures, results.notes, results.source), [note]


def _metrics(results: Results, plan: Plan) -> list[str]:
    present = list(pd.unique(results.final["metric"]))
    if plan.metrics:
        return [m for m in plan.metrics if m in present] or list(plan.metrics)
    return [m for m in present if m not in claims.CONTROLS]


def _ordered(present: list[str], declared: tuple[str, ...]) -> list[str]:
    return [d for d in declared if d in present] + [p for p in present if p not in declared]


def _arms(scores: Scores, arms, conditions, metrics) -> list[dict]:
    rows = []
    for metric in metrics:
        for condition in conditions:
            for arm in arms:
                values = scores.of(arm, condition, Metric(metric, metric))
                if not values:
                    continue
                row = {"arm": arm, "condition": condition, "metric": metric}
                row |= describe(list(values.values()))
                row["reason"] = _why_not(row)
                row["seeds"] = list(values)
                row["values"] = [float(v) for v in values.values()]
                rows.append(row)
    return rows


def _why_not(row: dict) -> str | None:
    """Why an arm's interval, or failing that its IQM, cannot be had."""
    if row["ci_low"] is None:
        return "one seed" if row["n"] < 2 else "constant values"
    return "no IQM below 4 seeds" if row["iqm"] is None else None


def _design(plan, rules, compared, arms, conditions, metrics, looks) -> dict:
    family = [c for c in compared if c["declared"]] or compared
    m = len(family)
    # What the data reached, not what was planned: a seed that is missing costs p as well.
    n = min((c["n_pairs"] for c in family if c["verdict"] != "invalid"), default=0)
    effect = power.minimum_detectable_effect(n, m, rules.alpha)
    sd = plan.pilot_sd
    return {
        "hash": plan.hash,
        "declared": plan.declared,
        "alpha": plan.alpha,
        "alpha_per_look": rules.alpha,
        "looks_planned": plan.looks_planned,
        "looks": looks,
        "unplanned_looks": rules.unplanned_looks,
        "margin": plan.margin,
        "chance": plan.chance,
        "overridden": list(plan.overridden),
        "family_size": m,
        "exploratory_family_size": sum(not c["declared"] for c in compared),
        "seeds": list(plan.seeds) or sorted({s for c in family for s in c["seeds"]}, key=str),
        "n_planned": plan.planned_n,
        "n_pairs": n,
        "p_min": power.smallest_p(n),
        "seeds_needed": power.seeds_needed_for_family(m, rules.alpha),
        "can_reach": m * power.smallest_p(n) <= rules.alpha if m else None,
        "minimum_detectable_dz": effect,
        "minimum_detectable_difference": effect * sd if effect and sd else None,
        "power": power.POWER,
        "confidence_level": CONFIDENCE,
        "primary_test": "two-sided sign-flip test, exact to 20 pairs",
        "correction": "Holm",
        "rng_seed": RNG_SEED,
        "arms": list(arms),
        "conditions": list(conditions),
        "metrics": list(metrics),
    }


def _claims(plan: Plan, compared: list[dict]) -> list[dict]:
    records = {c["claim"]: c for c in compared if c["claim"] is not None}
    answered = claims.answers(plan, compared)
    for row in answered:
        row["sentence"] = words.claim_sentence(row["asks"], row["verdict"], records[row["id"]])
    return answered


def _add_early_minus_late(plan: Plan, compared: list[dict], scores: Scores, results) -> None:
    for claim, record in zip(plan.claims, compared, strict=False):
        if claim.kind == "curve":
            last = curves.last_epoch(results, claim.metric.base)
            record["early_minus_late"] = last and curves.early_minus_late(
                scores, record, claim.metric, last
            )


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


def _warnings(report: dict, plan: Plan, notes: list[str]) -> list[str]:
    design, found = report["design"], []
    if not plan.declared:
        found.append(
            "No plan was given: every comparison is exploratory, and a confirmation on"
            " fresh seeds is needed before it is claimed."
        )
    if plan.overridden:
        found.append(
            f"{' and '.join(plan.overridden)} differ from the plan's: verdicts are exploratory."
        )
    if design["can_reach"] is False and design["n_pairs"]:
        found.append(
            f"The design cannot reach significance: {design['n_pairs']} pairs reach p ="
            f" {words.p_number(design['p_min'])} at best, a family of {design['family_size']}"
            f" needs {design['seeds_needed']} seeds."
        )
    if design["unplanned_looks"]:
        found.append(
            "The results were looked at before the planned number of seeds without this"
            " being planned: every verdict is exploratory and stays undecided."
        )
    found += ledger.budget_warnings(report["ledger"]) + ledger.failure_warnings(report["ledger"])
    broken = [m for m in report["missing"]]
    if broken and not report["ledger"]:
        found.append(f"{len(broken)} runs broke down; they are listed under missing data.")
    if broken and plan.chance is None:
        found.append(
            "Runs broke down and no chance level was given, so it cannot be checked"
            " whether verdicts depend on them: pass --chance."
        )
    absent = {
        (d["arm"], d["condition"], d["seed"])
        for c in report["comparisons"]
        for d in c["dropped"]
        if d["reason"] == "absent"
    }
    if absent:
        found.append(
            f"{len(absent)} planned or half-paired scores are absent from the table;"
            " comparisons rest on complete pairs only."
        )
    if len(design["arms"]) < 2:
        found.append("Only one arm is in the table: there is nothing to compare it with.")
    return found + notes


def _is_final(look: Any) -> bool:
    return isinstance(look, dict) and bool(look.get("final"))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "analysis": analysis.__version__}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "not installed"
    return found
