"""The page that sets what papers printed beside what was found, for every committed study.

    python -m analysis.reproduction [PAGE] [RESULTS]

It rewrites the generated parts of PAGE (docs/reproduction.md) from the folders in RESULTS
(results/), each with `study.yaml`, `results.csv` and `runs.csv`. What a person wrote there stays:

- between `<!-- studies -->` and `<!-- end -->` stands a section for each study;
- `<!-- found STUDY/CLAIM -->…<!-- end -->` quotes what a study found on one claim.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.inputs import read_plan
from analysis.inputs.session_log import SessionLog, looks_taken
from analysis.rendering import Report
from analysis.rendering.markdown import markdown_escape
from analysis.report import analyse
from analysis.tables import comparisons as cells
from analysis.tables.table import NONE, interval
from analysis.wording import after_difference, difference, numbers

PAGE, RESULTS = "docs/reproduction.md", "results"
_STUDIES = re.compile(r"(<!-- studies -->\n).*?(<!-- end -->)", re.S)
_FOUND = re.compile(r"(<!-- found (\S+?)/(\S+) -->).*?(<!-- end -->)", re.S)
NOT_RUN = "not run yet"


def rewritten(page: str, folders: Sequence[Path]) -> str:
    """The page with its generated parts as the folders have them.

    Args:
        page: its text so far.
        folders: of committed studies.

    Raises:
        TableError: a folder's tables cannot be used.
    """
    reports = {folder.name: report_of(folder) for folder in folders}
    sections = [section(folder, reports[folder.name]) for folder in folders]
    body = "\n".join([_overview(reports.values()), *sections])

    def found(match: re.Match) -> str:
        study, claim = match[2], match[3]
        text = _in_brief(reports[study], study, claim) if study in reports else NOT_RUN
        return match[1] + text + match[4]

    page = _STUDIES.sub(lambda match: f"{match[1]}{body}{match[2]}", page)
    return _FOUND.sub(found, page)


def studies_in(results: Path) -> list[Path]:
    """The folders of committed studies, by name."""
    return sorted(file.parent for file in results.glob("*/study.yaml"))


def report_of(folder: Path) -> Report:
    """The report of a study's committed tables; no look is logged."""
    plan, log = folder / "study.yaml", SessionLog(folder)
    planned = read_plan(plan).planned_n or 1
    looks = looks_taken(log.entries(), planned, log.breaks()) if log.file.exists() else []
    return analyse(
        folder / "results.csv", plan=plan, runs=folder / "runs.csv", provenance={"looks": looks}
    )


def section(folder: Path, report: Mapping[str, Any]) -> str:
    """What one study asked, at what scale, for what cost, and a row for each of its claims."""
    plan = yaml.safe_load((folder / "study.yaml").read_text(encoding="utf-8"))
    lines = [f"### {folder.name}", "", markdown_escape(report["question"] or ""), ""]
    lines += [f"- **{key}**: {markdown_escape(text)}" for key, text in _facts(report, plan)]
    lines += ["", *_table(report), ""]
    sources = [f"{r['claim']}: {r['source']}" for r in report["published"] if r["source"]]
    if sources:
        lines += [f"Published: {markdown_escape('; '.join(sources))}.", ""]
    lines += [f"Warning: {markdown_escape(warning)}\n" for warning in report["warnings"]]
    return "\n".join(lines)


def _facts(report: Mapping[str, Any], plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    design, search = report["design"], plan.get("search")
    images = max((a["images"] for a in report["arms"] if a["images"]), default=0)
    tested = f"; {images:,} test images" if images else ""
    unit = design["unit_of_analysis"] or "seed"
    about = {
        "method": "methods, as this search tunes them",
        "configuration": "configurations, as written or as one search froze them",
    }[design["scope"]]
    tuned = (
        f"; {_times(search.get('replicates', 1))} of {search['trials_per_arm']} trials for each arm"
        if search
        else "; nothing is tuned"
    )
    return [
        ("Scale", _settings(plan.get("trial")) + tested),
        ("Arms", "; ".join(f"{arm} ({_settings(own)})" for arm, own in plan["arms"].items())),
        *_conditions(plan.get("conditions") or {}),
        ("Scope", f"{about}{tuned}"),
        ("Units", f"{design['n_pairs']} paired {unit}s of {design['n_planned']} planned"),
        ("Margin", "none" if design["margin"] is None else f"{design['margin']:g}"),
        ("Cost", _cost(report["ledger"])),
        ("Hardware and versions", _environments(report["environments"])),
        ("Study", f"id {plan.get('id', 'unknown')}, hash of the design {str(design['hash'])[:12]}"),
    ]


def _times(searches: int) -> str:
    return "one search" if searches == 1 else f"{searches} independent searches"


def _settings(settings: Mapping[str, Any] | None) -> str:
    return (
        ", ".join(f"{name} {value}" for name, value in (settings or {}).items())
        or "nothing changed"
    )


def _conditions(conditions: Mapping[str, Any]) -> list[tuple[str, str]]:
    if list(conditions) in ([], ["default"]):
        return []
    each = "; ".join(f"{name} ({_settings(own)})" for name, own in conditions.items())
    return [("Conditions", each)]


def _cost(ledger: list[dict]) -> str:
    """Of all arms: how many trainings, and the time that they took one after the other."""
    runs = sum(row["started"] for row in ledger)
    hours = sum(row["seconds"] for row in ledger) / 3600
    broken = sum(row["failed"] + row["diverged"] for row in ledger)
    lost = f", {broken} of them failed or diverged" if broken else ""
    return f"{runs} trainings of {hours:.2g} hours in all{lost}"


def _environments(found: list[dict]) -> str:
    if not found:
        return "not recorded by the version that ran it; see results/README.md"
    return "; ".join(
        ", ".join(f"{name} {value}" for name, value in row["environment"].items())
        + (f" ({row['runs']} trainings)" if len(found) > 1 else "")
        for row in found
    )


COLUMNS: tuple[tuple[str, Callable[[dict], str]], ...] = (
    ("claim", lambda r: r["id"]),
    ("says", lambda r: _says(r)),
    ("published", lambda r: cells.figures(r["published"]) if r["published"] else NONE),
    (
        "published difference",
        lambda r: cells.published_difference(r["published"]) if r["published"] else NONE,
    ),
    ("found", lambda r: _difference(r)),
    (
        "95 % interval",
        lambda r: interval(r["ci_low"], r["ci_high"], lambda v: difference(v, r["unit"])),
    ),
    ("published within", lambda r: cells.within(r["published"]) if r["published"] else NONE),
    ("n", lambda r: str(r["n_units"])),
    ("verdict", lambda r: _verdict(r)),
)


def _table(report: Mapping[str, Any]) -> list[str]:
    rows = _claims(report)
    lines = ["| " + " | ".join(name for name, _ in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for row in rows:
        lines.append("| " + " | ".join(markdown_escape(cell(row)) for _, cell in COLUMNS) + " |")
    return lines


def _claims(report: Mapping[str, Any]) -> list[dict]:
    """One mapping per claim: its comparison, its answer, and what was published on it."""
    records = {c["claim"]: c for c in report["comparisons"] if c["claim"] is not None}
    published = {row["claim"]: row for row in report["published"]}
    return [
        records[claim["id"]]
        | {"answer": claim["verdict"], "id": claim["id"], "published": published.get(claim["id"])}
        for claim in report["claims"]
    ]


def _says(row: Mapping[str, Any]) -> str:
    asks = {
        "better": f"{row['b']} better than {row['a']}",
        "less_hurt": f"{row['b']} degrades less than {row['a']}, or gains more",
        "equivalent": f"{row['b']} equivalent to {row['a']}",
    }[row["asks"]]
    where = "" if row["condition"] == "default" else f", {row['condition']}"
    return f"{asks}: {numbers.base_metric(row['metric'])}{where}"


def _difference(row: Mapping[str, Any]) -> str:
    return difference(row["mean_difference"], row["unit"]) + after_difference(row["unit"])


def _verdict(row: Mapping[str, Any]) -> str:
    text = row["answer"]
    if row["within_margin"] and row["asks"] != "equivalent":
        text += ", by less than the margin"
    if row["verdict"] == "not_better":
        text += ": not by the margin"
    if row["verdict"] == "worse" and row["asks"] != "equivalent":
        text += ": worse"
    if row["reason"]:
        text += f" ({row['reason'].replace('_', ' ')})"
    return text + " (exploratory)" * bool(row["exploratory"])


def _in_brief(report: Mapping[str, Any], study: str, claim: str) -> str:
    """`+0.7 points [−3.1, +4.5], undecided (insufficient evidence)`, with a link to the study."""
    row = next((row for row in _claims(report) if row["id"] == claim), None)
    if row is None:
        return f"{NOT_RUN}: {study} has no claim {claim}"
    limits = interval(row["ci_low"], row["ci_high"], lambda v: difference(v, row["unit"]))
    shown = markdown_escape(f"{_difference(row)} {limits}, {_verdict(row)}")
    return f"{shown} ([{study}](#{study.lower()}), {claim})"


def _overview(reports: Iterable[Report]) -> str:
    rows = [row for report in reports for row in _claims(report)]
    counts = {
        verdict: sum(row["answer"] == verdict for row in rows)
        for verdict in ("supported", "refuted", "undecided", "invalid")
    }
    compared = [row["published"]["within_interval"] for row in rows if row["published"]]
    known = [within for within in compared if within is not None]
    text = ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n)
    return (
        f"{len(reports)} studies with {len(rows)} claims: {text}. Of {len(known)} published"
        f" differences {sum(known)} lie in the 95 % interval of ours.\n"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 2 for the user's input."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) > 2 or any(word.startswith("-") for word in given):
        print(__doc__, file=sys.stderr)
        return 2
    page, results = (Path(p) for p in (*given, *(PAGE, RESULTS)[len(given) :]))
    if not page.is_file() or not studies_in(results):
        print(
            f"{page if not page.is_file() else results}: nothing to write from\n"
            f"  allowed: a page with `<!-- studies -->`, and a folder of committed studies\n"
            f"  try: python -m analysis.reproduction {PAGE} {RESULTS}, in the repository's root",
            file=sys.stderr,
        )
        return 2
    page.write_text(rewritten(page.read_text(encoding="utf-8"), studies_in(results)), "utf-8")
    print(f"{page}: {len(studies_in(results))} studies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
