"""The table of runs, `runs.csv`: one row for each trial and each run of the confirmation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.errors import TableError
from analysis.inputs.claim_checks import DEFAULT_CONDITION
from analysis.inputs.replicates import Replicates, numbered
from analysis.inputs.results_table import Results, read_table

COLUMNS = (
    "phase",
    "arm",
    "condition",
    "replicate",
    "seed",
    "trial",
    "status",
    "epochs",
    "planned_epochs",
    "seconds",
    "value",
    "config",
    "mlflow_run_id",
    "failure",
    "environment",
)
# A recheck trains one of the search's best trials again, on another seed: part of its budget.
SEARCHED = ("search", "recheck")
PHASES = (*SEARCHED, "confirm")
STATUSES = ("planned", "running", "finished", "stopped", "diverged", "failed")


def read_runs(source: str | Path | pd.DataFrame | None) -> pd.DataFrame | None:
    """The table of runs with all its columns, numbers as numbers; None stays None.

    Raises:
        TableError: no arm or status column, or an unknown phase or status.
    """
    if source is None:
        return None
    where = "runs table" if isinstance(source, pd.DataFrame) else str(source)
    raw = read_table(source, what="runs")
    missing = [column for column in ("phase", "arm", "status") if column not in raw]
    if missing:
        raise TableError(
            f"no column {', '.join(missing)}",
            where=where,
            allowed=", ".join(COLUMNS),
            try_="pass the runs.csv of the study",
        )
    runs = raw.reindex(columns=list(COLUMNS)).copy()
    for column in (
        "phase", "arm", "condition", "status", "config", "mlflow_run_id", "failure", "environment",
    ):  # fmt: skip
        runs[column] = runs[column].astype(object).where(runs[column].notna(), "").map(str)
    for column in ("trial", "epochs", "planned_epochs", "seconds", "value"):
        runs[column] = pd.to_numeric(runs[column], errors="coerce").astype(float)
    cells = runs["replicate"].astype(object).where(runs["replicate"].notna(), "").map(str)
    named = cells[cells.str.strip() != ""]
    runs["replicate"] = numbered(named).astype(object).reindex(runs.index)
    runs["seed"] = _seeds(runs["seed"])
    for column, allowed in (("phase", PHASES), ("status", STATUSES)):
        wrong = ~runs[column].isin(allowed)
        if wrong.any():
            row = runs.index[wrong][0]
            raise TableError(
                f"{column} is {runs.loc[row, column]!r}",
                where=f"{where}, row {row}",
                allowed=", ".join(allowed),
                try_="correct the cell",
            )
    return runs


def _seeds(cells: pd.Series) -> pd.Series:
    """The column `seed` as in a table of results, with NA where it is empty."""
    text = cells.astype(object).where(cells.notna(), "").map(lambda cell: str(cell).strip())
    seeds = numbered(text[text != ""])
    kept = seeds.astype("Int64") if seeds.dtype.kind == "i" or seeds.empty else seeds
    return kept.reindex(cells.index)


def failures(runs: pd.DataFrame | None) -> dict[tuple[str, str, object], str]:
    """(arm, condition, seed) -> diverged, failed or stopped, of confirmation runs."""
    if runs is None:
        return {}
    broken = runs[
        (runs["phase"] == "confirm")
        & runs["status"].isin(["diverged", "failed", "stopped"])
        & runs["seed"].notna()
    ]
    return {
        (arm, condition or "default", seed): status
        for arm, condition, seed, status in zip(
            broken["arm"],
            broken["condition"],
            broken["seed"].tolist(),
            broken["status"],
            strict=True,
        )
    }


def environments(runs: pd.DataFrame | None) -> dict[tuple[str, str, object], dict[str, str]]:
    """(arm, condition, seed) -> where it ran, of confirmation runs of which that is known."""
    if runs is None:
        return {}
    known = runs[(runs["phase"] == "confirm") & (runs["environment"] != "")]
    return {
        (arm, condition or "default", seed): environment_of(text)
        for arm, condition, seed, text in zip(
            known["arm"], known["condition"], known["seed"].tolist(), known["environment"],
            strict=True,
        )
    }  # fmt: skip


def environment_of(cell: str) -> dict[str, str]:
    """What a cell of the column `environment` says; {} where nothing is known."""
    try:
        found = json.loads(cell or "{}")
    except ValueError:
        return {}
    return (
        {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    )


def replicates_of(runs: pd.DataFrame | None) -> Replicates:
    """Which replicates the confirmation has, those without results included."""
    if runs is None:
        return Replicates()
    own = runs[(runs["phase"] == "confirm") & runs["replicate"].notna()]
    with_seed = own[own["seed"].notna()]
    return Replicates(
        dict(zip(with_seed["seed"].tolist(), with_seed["replicate"].tolist(), strict=True)),
        frozenset(zip(own["arm"], own["replicate"], strict=True)),
    )


def units_ended(results: Results, runs: pd.DataFrame | None, replicates: int | None) -> int:
    """How many units of a design have ended, by its table; a run that broke down has ended, too.

    Args:
        results: checked.
        runs: a unit of which a run is planned or running has not ended.
        replicates: of the design; the unit is the seed where it has no more than one.
    """
    several = (replicates or 1) > 1
    seeds = {*results.frame["seed"].tolist(), *(seed for _, _, seed in results.failures)}
    waiting = set()
    if runs is not None:
        open_ = runs[(runs["phase"] == "confirm") & runs["status"].isin(["planned", "running"])]
        waiting = set(open_["replicate" if several else "seed"].dropna().tolist())
    return len({results.replicates.get(s, s) if several else s for s in seeds} - waiting)


def with_costs(results: Results, runs: pd.DataFrame | None, costs: Sequence[str]) -> Results:
    """Results with final figures of these costs: what each run had spent at its own last epoch.

    Args:
        costs: those that the table has as curves; `seconds` stand in the table of runs, since a
            study's results have only what a seed determines.
    """
    found = [results.frame]
    for cost in costs:
        curve = results.curves[results.curves["metric"] == cost]
        if (results.final["metric"] == cost).any():
            continue
        if len(curve):
            last = curve.groupby(["arm", "condition", "seed"])["epoch"].transform("max")
            found.append(curve[curve["epoch"] == last].assign(epoch=float("nan")))
        elif cost == "seconds" and runs is not None:
            own = runs[(runs["phase"] == "confirm") & (runs["status"] == "finished")]
            own = own.assign(condition=own["condition"].replace("", DEFAULT_CONDITION))
            own = own[["arm", "condition", "seed"]].assign(metric=cost, value=own["seconds"])
            own["seed"] = own["seed"].tolist()
            found.append(own)
    return replace(results, frame=pd.concat(found, ignore_index=True)) if found[1:] else results


def searched_seeds(runs: pd.DataFrame | None) -> set:
    """Seeds that trials of the search phase used."""
    if runs is None:
        return set()
    return set(runs.loc[runs["phase"].isin(SEARCHED), "seed"].dropna().tolist())
