"""The design section: what was declared or published, and with which libraries it was computed."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import analysis
from analysis.inputs import Plan
from analysis.statistics import CONFIDENCE, RNG_SEED, power

LIBRARIES = ("numpy", "scipy", "statsmodels", "pandas", "scikit-learn", "matplotlib")


TESTS = {
    "max_t": "step-down max-T by joint sign flips, paired, exact to 20 units",
    "holm": "sign-flip tests, paired, exact to 20 units",
}


def design(plan, rules, compared, arms, conditions, metrics, looks) -> dict:
    family = [c for c in compared if c["declared"]] or compared
    m = len(family)
    # What the data reached, not what was planned: a seed that is missing costs p as well.
    n = min((c["n_pairs"] for c in family if c["verdict"] != "invalid"), default=0)
    effect = power.minimum_detectable_effect(n, m, rules.alpha)
    sd = plan.pilot_sd
    needed = power.seeds_needed_for_family(m, rules.alpha, correction=plan.correction)
    return {
        "hash": plan.hash,
        "declared": plan.declared,
        "alpha": plan.alpha,
        "alpha_per_look": rules.alpha,
        "scope": rules.scope,
        "unit_of_analysis": family[0]["unit_of_analysis"] if family else None,
        "replicates": plan.replicates,
        "trials": plan.trials,
        "looks_planned": plan.looks_planned,
        "looks_at": list(plan.looks),
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
        "units_needed": needed,
        "can_reach": n >= needed if m else None,
        "minimum_detectable_dz": effect,
        "minimum_detectable_difference": effect * sd if effect and sd else None,
        "power": power.POWER,
        "confidence_level": CONFIDENCE,
        "primary_test": TESTS[plan.correction],
        "correction": plan.correction,
        "rng_seed": RNG_SEED,
        "arms": list(arms),
        "conditions": list(conditions),
        "metrics": list(metrics),
    }


def published(plan: Plan, compared: list[dict]) -> list[dict[str, Any]]:
    """One row per claim for which the plan has `published:`; it enters no test.

    `within_interval` says whether the published difference lies in the 95 % interval of ours; None
    where there is no figure, or no interval.
    """
    records = {c["claim"]: c for c in compared if c["claim"] is not None}
    rows = []
    for said in plan.published:
        found = records[said.claim]
        low, high = found["ci_low"], found["ci_high"]
        known = said.difference is not None and low is not None
        rows.append(
            {
                "claim": said.claim,
                "a": found["a"],
                "b": found["b"],
                "metric": found["metric"],
                "condition": found["condition"],
                "unit": found["unit"],
                "figures": [vars(figure) for figure in said.figures],
                "published_difference": said.difference,
                "approximate": said.approximate,
                "mean_difference": found["mean_difference"],
                "ci_low": low,
                "ci_high": high,
                "within_interval": low <= said.difference <= high if known else None,
                "source": said.source,
            }
        )
    return rows


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "analysis": analysis.__version__}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "not installed"
    return found
