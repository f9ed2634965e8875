"""The report of a table of results, from Python and from the command line.

`write_report` reads the table, answers the plan's claims and writes one folder: a self-contained
HTML page, JSON, Markdown, CSV and LaTeX tables, SVG and PDF figures.

    python -m analysis.report RESULTS.csv [--plan STUDY.yaml] [--better METRIC=lower] [--out DIR]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.broken_pipe import run
from analysis.errors import TableError, nearest
from analysis.inputs import DEFAULT_CONDITION, FRACTION, Plan, read_plan
from analysis.inputs.results_table import Results, read_results, read_table
from analysis.inputs.runs_table import (
    failures,
    read_runs,
    replicates_of,
    searched_seeds,
    units_ended,
)
from analysis.inputs.session_log import StudyFolder, study_folder_of
from analysis.rendering import Report
from analysis.report_json import clean
from analysis.sections import assemble_report
from analysis.wording import guessed_directions, one_line_verdicts

KEPT = "kept"  # folder of a study with the files that its runs kept


def analyse(
    results: str | Path | pd.DataFrame,
    *,
    claims: Sequence[Mapping[str, Any]] | None = None,
    better: str | Mapping[str, str] | None = None,
    margin: float | None = None,
    alpha: float | None = None,
    chance: float | None = None,
    percent: bool = False,
    plan: str | Path | Mapping | None = None,
    runs: str | Path | pd.DataFrame | None = None,
    provenance: Mapping[str, Any] | None = None,
    importance: Mapping[str, Any] | None = None,
    kept: str | Path | None = None,
) -> Report:
    """Analyse a table of results.

    A table or plan in the folder of a study is bound by what the study recorded there: its claims,
    and the looks in its log, to which this one is added while units are missing.

    Args:
        results: CSV, Parquet or frame with columns `arm, condition, replicate, seed, epoch,
            metric, value, correct, total`; confirmation phase only. Accuracies are fractions in
            [0, 1].
        claims: as in a plan, where there is none: `{"better": "b", "than": "a", "metric": …}`.
            Those without an `id` are called C1, C2, … Give those that were decided before the data.
        better: `higher` or `lower` for all metrics that the plan does not declare, or a mapping
            metric -> direction, which overrides the plan's; the name `""` stands for all others.
        margin, alpha, chance: override the plan's; another margin or alpha than the plan's makes
            verdicts exploratory.
        percent: accuracies of the table, `margin` and `chance` are in percent.
        plan: a study's YAML or mapping; in a study's folder the recorded one; without it and
            without claims every comparison is exploratory.
        runs: runs.csv of the study or a frame, for ledger, failures and search analysis.
        provenance: shown as it stands; `looks` lists the looks at the data before the planned
            number of units, as the caller knows them; `mlflow` where its runs can be browsed
            (`analysis.tables.links`).
        importance: of the searched settings, by arm, in the shape of `study.reporting.importance`.
        kept: folder of the files that runs kept; features among them give the figure `embedding`
            and the claims under other evaluations. In a study's folder its own.

    Returns:
        What report.json holds, as a dictionary; notebooks show its verdicts.

    Raises:
        TableError: the table, the plan or the runs cannot be used; says what to do.

    Example:
        >>> analyse("results/pos/results.csv", plan="results/pos/study.yaml").verdicts["F1n"]
        'supported'
    """
    if percent:
        # Given on the scale of the table, like everything else that the caller sees.
        margin = None if margin is None else margin / 100
        chance = None if chance is None else chance / 100
    given = {"margin": margin, "alpha": alpha, "chance": chance}
    bound = None if "looks" in (provenance or {}) else study_folder_of(results, plan)
    if claims is not None:
        plan, given = _plan_of(claims, plan, results) | given, {}
    declared = _declared(plan, better, given, bound)
    table_of_runs = read_runs(bound.runs if bound and runs is None else runs)
    checked = read_results(
        results,
        metrics=declared.meanings,
        percent=percent,
        failures=failures(table_of_runs),
        searched=searched_seeds(table_of_runs),
        replicates=replicates_of(table_of_runs),
    )
    _check_units(checked, declared)
    _check_named(checked, declared)
    shown = dict(provenance or {})
    if bound:
        units = units_ended(checked, table_of_runs, declared.replicates)
        shown["looks"] = bound.look(units, declared.planned_n)
        shown["study"] = str(bound.path)
        kept = bound.path / KEPT if kept is None else kept
    return Report(
        assemble_report(
            checked, declared, table_of_runs, clean(shown), importance,
            None if kept is None else Path(kept),
        )
    )  # fmt: skip


def write_report(
    results: str | Path | pd.DataFrame, *, out: str | Path, **arguments: Any
) -> Report:
    """Analyse a table of results and write the report's folder.

    Args:
        results, arguments: as for `analyse`.
        out: folder to write; files of an earlier report in it are replaced.

    Returns:
        The report, as written to report.json.

    Raises:
        TableError: as `analyse`.
        OSError: the folder cannot be written.
    """
    report = analyse(results, **arguments)
    report.save(out)
    return report


def _declared(plan: Any, better: Any, given: Mapping, bound: StudyFolder | None) -> Plan:
    """The plan; for a table in a study's folder the recorded one, or another that is marked."""
    if bound is None:
        return read_plan(plan, better=better, **given)
    if plan is None:
        return read_plan(bound.plan, better=better, **given)
    return bound.bind(read_plan(plan, better=better, **given))


def _plan_of(claims: Any, plan: Any, results: str | Path | pd.DataFrame) -> dict[str, Any]:
    """A plan of claims alone, with the arms and conditions of the table."""
    if plan is not None:
        raise TableError(
            "claims are given beside a plan",
            where="arguments",
            allowed="claims, or a plan with its own",
            try_="put them under `claims:` of the plan",
        )
    table = read_table(results)
    names: dict[str, Any] = {"arms": {}, "conditions": {}}
    for column in {"arm", "condition"} & set(table):
        found = table[column].astype(object).where(table[column].notna(), "").unique()
        names[f"{column}s"] = {str(name).strip() or DEFAULT_CONDITION: {} for name in found}
    named = [
        {"id": f"C{i}", **claim} if isinstance(claim, Mapping) else claim
        for i, claim in enumerate(claims, 1)
    ]
    return names | {"claims": named}


def _check_units(results: Results, plan: Plan) -> None:
    """A margin or chance level above 1 is a slip where every score is an accuracy."""
    final = results.final if len(results.final) else results.curves
    metrics = plan.metrics or final["metric"].unique()
    if not len(final) or any(plan.meanings.unit(metric) != FRACTION for metric in metrics):
        return
    for name in ("margin", "chance"):
        value = getattr(plan, name)
        if value is not None and not 0 <= value <= 1:
            raise TableError(
                f"{name} is {value:g}, and accuracies are fractions; is it in percent?",
                where="arguments or plan",
                allowed="a number in [0, 1]",
                try_=f"{value / 100:g}, or --percent if the accuracies are in percent too",
            )


def _check_named(results: Results, plan: Plan) -> None:
    """Refuse a direction for a metric that the table does not have: a misspelt name."""
    known = sorted({*results.frame["metric"], *plan.metrics})
    for metric in plan.meanings.options:
        if metric and metric not in known:
            near = nearest(metric, known) or known[0]
            raise TableError(
                f"better is given for {metric}, which is not a metric of the table",
                where="arguments",
                allowed=", ".join(known),
                try_=f"--better {near}={plan.meanings.options[metric]}",
            )


def directions(given: list[str] | None) -> dict[str, str]:
    """`NAME=higher` and bare `lower`, as on the command line; the bare one's name is `""`.

    Example:
        >>> directions(["test/rmse=lower", "higher"])
        {'test/rmse': 'lower', '': 'higher'}
    """
    pairs = (text.rpartition("=") for text in given or ())
    return {metric: direction for metric, _, direction in pairs}


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for the user's input."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.report",
        description="Verdicts and a report from a tidy table of results.",
    )
    parser.add_argument("results", help="CSV or Parquet: arm, condition, seed, metric, value, …")
    parser.add_argument("--plan", help="a study's YAML with claims, margin, alpha")
    parser.add_argument("--runs", help="runs.csv: budgets, failures and search trials")
    parser.add_argument("--margin", type=float, help="differences below it are practically equal")
    parser.add_argument("--chance", type=float, help="score of guessing, for runs that broke down")
    parser.add_argument("--alpha", type=float, help="family-wise error (default: plan's or 0.05)")
    parser.add_argument(
        "--percent", action="store_true", help="accuracies, --margin, --chance are in percent"
    )
    parser.add_argument(
        "--better",
        action="append",
        metavar="METRIC=lower",
        help="which direction is better: METRIC=higher, METRIC=lower, or higher or lower for all"
        " metrics that the plan does not declare; repeatable",
    )
    parser.add_argument("--out", default="report", help="folder to write (default: report)")
    given = parser.parse_args(arguments)
    try:
        report = write_report(
            given.results,
            plan=given.plan,
            runs=given.runs,
            out=given.out,
            margin=given.margin,
            alpha=given.alpha,
            chance=given.chance,
            percent=given.percent,
            better=directions(given.better),
        )
    except OSError as error:
        print(
            f"{given.out}: the report cannot be written: {error.strerror}\n"
            "  try: --out with a folder that you may write to",
            file=sys.stderr,
        )
        return 2
    except TableError as error:
        print(error, file=sys.stderr)
        return 2
    for warning in report["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    for line in [*one_line_verdicts(report), *guessed_directions(report)]:
        print(line)
    if "study" in report["provenance"] and given.plan is None:
        print(f"plan: {Path(report['provenance']['study']) / 'study.yaml'}, as recorded")
    print(f"report: {Path(given.out) / 'report.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
