"""The summary at the end of a study: verdicts, where everything is, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from study.errors import DONE, FAILED, last_line
from study.records import Ledger
from study.reporting.tables import PARETO
from study.storage import Folder, is_address
from study.tracking import Tracker, browse_command, experiment_page


def close_study(folder: Folder, tracker: Tracker, console: Console, *, storage: str) -> int:
    """Write the report, log it, say where everything is; 0, or 1 if a training failed.

    Args:
        folder: of the study, with its tables.
        tracker: gets report and verdicts.
        console: where to.
        storage: as the user gave it, without options.
    """
    from study.reporting.study_report import report_on

    where = _Where(folder, storage)
    endings = [
        ending
        for phase in ("search", "recheck", "confirm")
        for ending in Ledger(folder.path, forgiving=True).all(phase)
    ]
    failed = [ending for ending in endings if ending.outcome == "failed"]
    frozen = folder.frozen(folder.load())
    missing = [arm for _, winners in frozen for arm, won in winners.items() if won is None]
    if any(ending.outcome != "failed" for ending in endings if ending.job.phase == "confirm"):
        report = report_on(folder)
        _log(report, folder, tracker)
        _say(report, where, console, tracker.place())
    if failed:
        first, count = failed[0], len(failed)
        print(
            f"{count} training{'s' * (count > 1)} failed, the first, {first.job.key}, with: "
            f"{last_line(first.failure)}\n"
            f"  all of them with their tracebacks: {where.of(folder.runs_csv)}",
            file=sys.stderr,
        )
    return FAILED if failed or missing else DONE


def _log(report: Mapping[str, Any], folder: Folder, tracker: Tracker) -> None:
    for file in (folder.study_yaml, folder.runs_csv, folder.results_csv):
        tracker.artifacts("confirm", file)
    tracker.artifacts("confirm", folder.report, "report")
    if (pareto := folder.path / PARETO).exists():
        tracker.artifacts("search", pareto)
    claims = {f"claim.{c['id']}": f"{c['verdict']}: {c['sentence']}" for c in report["claims"]}
    lines = [f"- **{c['id']}** {c['sentence']}" for c in report["claims"]]
    note = "\n\n".join([report["question"] or "", *lines]).strip()
    tracker.tag("confirm", claims | {"mlflow.note.content": note})
    tracker.figures("confirm", _figures(report))
    tracker.flush()


def _figures(report: Mapping[str, Any]) -> dict[str, float]:
    """Means of the arms and differences of the claims, by names that MLflow groups by metric."""
    several = len(report["design"]["conditions"]) > 1
    found = {
        f"{a['metric']}/{a['arm']}" + (f"/{a['condition']}" if several else ""): a["mean"]
        for a in report["arms"]
    }
    for c in report["comparisons"]:
        if c["claim"] is not None and c["ci_low"] is not None:
            start = f"difference/{c['claim']}"
            found |= {start: c["mean_difference"]}
            found |= {f"{start}/low": c["ci_low"], f"{start}/high": c["ci_high"]}
    return found


def _say(
    report: Mapping[str, Any], where: _Where, console: Console, place: Mapping[str, str]
) -> None:
    from analysis.wording import one_line_verdicts

    folder = where.folder
    console.print()
    for line in one_line_verdicts(report):
        # Whole lines for files and pipes, whole words for people.
        console.print(line, markup=False, soft_wrap=not console.is_terminal)
    console.print()
    lines = [
        f"report:  {where.of(folder.report / 'report.html')}",
        f"tables:  {where.of(folder.results_csv)}, {where.of(folder.runs_csv)}",
    ]
    if where.remote:
        lines.append(f"here:    {folder.path}")
    lines.append(f"browse:  {browse_command()}")
    if {"url", "experiment"} <= place.keys():
        lines.append(f"         {experiment_page(place['url'], place['experiment'])}")
    for line in lines:
        console.print(line, markup=False)


class _Where:
    """Paths as the user would write them."""

    def __init__(self, folder: Folder, storage: str) -> None:
        self.folder, self._storage, self.remote = folder, storage, is_address(storage)

    def of(self, path: Path) -> str:
        within = path.relative_to(self.folder.path)
        name = self.folder.path.name
        if self.remote:
            return f"{self._storage}/{name}/{within.as_posix()}"
        return str(Path(self._storage) / name / within)
