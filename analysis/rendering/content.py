"""What every rendering of the report shows: sections, tables, figures and paragraphs in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from analysis.figures import Drawing
from analysis.tables import Table
from analysis.wording import numbers
from analysis.wording import sentences as words
from analysis.wording.paragraphs import beside, paragraphs

SECTIONS = (
    ("answers", "Answers in full"),
    ("estimates", "Scores of every seed"),
    ("training", "Did training help?"),
    ("embedding", "Representations"),
    ("curves", "Learning curves"),
    ("cost", "Accuracy and cost"),
    ("ledger", "Was the contest equal?"),
    ("missing", "Missing data"),
    ("search", "The search phase"),
    ("robustness", "Other evaluations (exploratory)"),
    ("secondary", "Secondary analyses"),
    ("tables", "Full tables"),
    ("provenance", "Provenance"),
)
SYMBOLS = {
    "supported": "✓",
    "better": "✓",
    "refuted": "✗",
    "worse": "✗",
    "equivalent": "=",
    "not_better": "✗",
    "undecided": "?",
    "invalid": "!",
}
CORRECTIONS = {"max_t": "max-T", "holm": "Holm"}
# Shown on the first screen where no claims were declared; the rest is in the tables.
MOST_FINDINGS = 12
FOLD_FROM = 40  # rows of a table that the page shows; longer tables are folded, except on paper


# Beside declared claims everything that decides none of them is folded.
FOLDED_TABLES = (
    "exploratory", "effects", "other_tests", "time_to", "omnibus", "robustness",
    "robustness_choices",
)  # fmt: skip
FOLDED_FIGURES = ("ranks", "expected-best", "slices", "parallel")
NOTHING: dict[str, set[str]] = {"tables": set(), "figures": set()}


def content(report, drawings, all_tables) -> dict[str, Any]:
    present = {d.section for d in drawings} | {t.section for t in all_tables} | {"provenance"}
    present |= {"embedding"} if report["embedding"] else set()  # or why it cannot be drawn
    findings = [c for c in report["comparisons"] if c["condition"] != "pooled"]
    return {
        "report": dict(report),  # of keys alone: templates read an attribute first
        "design": report["design"],
        "design_rows": _design_rows(report),
        "sections": [(key, title) for key, title in SECTIONS if key in present],
        "drawings": drawings,
        "tables": all_tables,
        "symbols": SYMBOLS,
        "findings": [
            {
                "verdict": c["verdict"],
                "sentence": words.finding(c),
                "why": (c["reason"] or "").replace("_", " "),
            }
            for c in findings[:MOST_FINDINGS]
        ],
        "fold_from": FOLD_FROM,
        "folded": _folded(report, drawings) if report["claims"] else NOTHING,
        "winners_at": _winners_at(drawings, all_tables),
        "beside": {c["id"]: beside(report, c["id"]) for c in report["claims"]},
        "covers": _covers(report["design"]),
        "findings_left": max(0, len(findings) - MOST_FINDINGS),
        "guessed": words.guessed_directions(report),
        "paragraphs": {key: paragraphs(report, key) for key, _ in SECTIONS},
        "provenance_rows": [
            *_flatten(report["provenance"]),
            *((f"report written with {name}", v) for name, v in report["versions"].items()),
        ],
        "p": numbers.p_number,
        "number": numbers.number,
    }


def _winners_at(drawings: Sequence[Drawing], tables: Sequence[Table]) -> str | None:
    """Where the page shows the winners' settings: the strips of replicates, else the table."""
    found = [f"figure-{drawing.name}" for drawing in drawings if drawing.name == "winners"]
    found += [f"table-{table.name}" for table in tables if table.name == "winners"]
    return next(iter(found), None)


def _folded(report: Mapping[str, Any], drawings: Sequence[Drawing]) -> dict[str, set[str]]:
    """Names of the tables and figures that decide no claim."""
    folded = {"tables": set(FOLDED_TABLES), "figures": set(FOLDED_FIGURES)}
    claimed = {c["metric"] for c in report["comparisons"] if c["declared"]}
    folded["figures"] |= {
        d.name for d in drawings if d.section == "estimates" and d.title not in claimed
    }
    if not any(pair["declared"] for entry in report["curves"] for pair in entry["pairs"]):
        folded["tables"].add("curves")
        folded["figures"].add("advantage")
    if report["cost"]["differs"] is None:
        folded["tables"].add("trade_off")
    return folded


def _meaning(metric: Mapping[str, Any]) -> str:
    """`test/rmse (dB, lower is better, guessed from the name)`."""
    guessed = ", guessed from the name" if metric["source"] == "name" else ""
    better = f"{metric['better'] or 'no direction'}{' is better' if metric['better'] else ''}"
    unit = f"{metric['unit']}, " if metric["unit"] else ""
    return f"{metric['metric']} ({unit}{better}{guessed})"


def _design_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    design = report["design"]
    correction = CORRECTIONS[design["correction"]]
    rows = [
        ("Plan's hash", design["hash"] or "none: nothing was declared beforehand"),
        ("Arms", ", ".join(design["arms"])),
        ("Conditions", ", ".join(design["conditions"])),
        ("Metrics", "; ".join(map(_meaning, report["metrics"]))),
        ("Seeds", ", ".join(map(str, design["seeds"]))),
        ("α, family-wise", f"{design['alpha']:g}"),
        ("Scope", _scope(design)),
        ("Looks planned", _looks(design)),
        ("Margin δ", "none declared" if design["margin"] is None else f"{design['margin']:g}"),
        ("Chance level", "none given" if design["chance"] is None else f"{design['chance']:g}"),
        ("Primary test", design["primary_test"]),
        (
            "Correction",
            f"{correction}, over a family of {design['family_size']}",
        ),
        ("Smallest p that can be reached", numbers.p_number(design["p_min"])),
        ("Units that the family needs", str(design["units_needed"])),
        ("Smallest d_z found with 80 % power", numbers.number(design["minimum_detectable_dz"], 2)),
        ("Seed of the random generator", str(design["rng_seed"])),
    ]
    return [(key, value) for key, value in rows if value]


def _scope(design: Mapping[str, Any]) -> str:
    about = {
        "method": "methods, as this search tunes them",
        "configuration": "configurations, as written or as one search froze them",
    }[design["scope"]]
    return f"{about}; the unit is the {design['unit_of_analysis'] or 'seed'}"


def _covers(design: Mapping[str, Any]) -> str:
    if design["scope"] == "method" and design["unit_of_analysis"] == "replicate":
        return "Answers cover new searches and seeds on this dataset, and nothing wider."
    return "Answers cover new seeds on this dataset and split, and nothing wider."


def _looks(design: Mapping[str, Any]) -> str:
    if design["looks_at"]:
        return f"after {', '.join(map(str, design['looks_at']))} units, group-sequential"
    return f"{design['looks_planned']}, α per look {design['alpha_per_look']:.3g}"


def _flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [row for key, item in value.items() for row in _flatten(item, f"{path} {key}")]
    if isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            return [(path.strip(), ", ".join(map(str, value)) or "none")]
        return [row for i, item in enumerate(value) for row in _flatten(item, f"{path} {i + 1}")]
    return [(path.strip(), "none" if value is None else str(value))]


def jinja_environment(*, autoescape: bool) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("analysis.rendering"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
