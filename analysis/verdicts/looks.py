"""Which claims are decided at a look, for a study that goes on while one is open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.inputs import Plan, read_plan
from analysis.inputs.results_table import read_results
from analysis.inputs.runs_table import (
    failures,
    read_runs,
    replicates_of,
    searched_seeds,
    with_costs,
)
from analysis.verdicts.comparisons import Rules, answers, compare, contrasts_of_claims
from analysis.verdicts.pairing import Scores


def decide_at_look(
    plan: Plan | str | Path | Mapping,
    table: str | Path | pd.DataFrame,
    *,
    runs: str | Path | pd.DataFrame | None = None,
) -> dict[str, str | None]:
    """claim id -> supported or refuted where the units so far decide it, else None.

    The same tests as the report's. With `confirm.looks` the group-sequential test applies, and
    only looks that the units have reached count; beyond the last one the e-process decides.

    Args:
        plan: of the study; with `confirm.looks` and the scope.
        table: the results so far, as for `analysis.report.analyse`.
        runs: runs.csv so far: failures, and replicates without results.

    Raises:
        TableError: as `analysis.report.analyse`.
    """
    declared = plan if isinstance(plan, Plan) else read_plan(plan)
    listed = read_runs(runs)
    results = read_results(
        table,
        metrics=declared.meanings,
        failures=failures(listed),
        searched=searched_seeds(listed),
        replicates=replicates_of(listed),
    )
    rules = Rules(
        alpha=declared.alpha / declared.looks_planned,
        margin=declared.margin,
        chance=declared.chance,
        metrics=declared.meanings,
        scope=declared.scope or "configuration",
        correction=declared.correction,
        looks=declared.looks,
    )
    ids = [claim.id for claim in declared.claims]
    results = with_costs(results, listed, declared.claimed_costs)
    scores = Scores(results, declared.seeds)
    records = compare(scores, contrasts_of_claims(declared), rules, declared=True, ids=ids)
    return {
        row["id"]: row["verdict"] if row["verdict"] in ("supported", "refuted") else None
        for row in answers(declared, records)
    }
