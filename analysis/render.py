"""How does a report look on a screen, on paper and to a program? Decides nothing.

Writes report.json, .html, .md and .tex, tables/ and figures/ from the report mapping alone.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from analysis import latex, words
from analysis.figures import draw
from analysis.paragraphs import paragraphs
from analysis.style import Drawing, to_pdf, to_svg
from analysis.tables import Table, tables
from analysis.verdicts import REASONS

SECTIONS = (
    ("answers", "Answers in full"),
    ("estimates", "Scores of every seed"),
    ("training", "Did training help?"),
    ("curves", "Learning curves"),
    ("cost", "Accuracy and cost"),
    ("ledger", "Was the contest equal?"),
    ("missing", "Missing data"),
    ("search", "The search phase"),
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
    "undecided": "?",
    "invalid": "!",
}
# Shown on the first screen where no claims were declared; the rest stands in the tables.
MOST_FINDINGS = 12
FOLD_FROM = 40  # rows of a table that the page shows unasked; more are folded, save on paper
_CODE = re.compile(r"`\S+`|--[a-z-]+(?: (?:[A-Z]+|[\w.]+=\w+)\b)?")
_JOINTS = re.compile(r"(?<=[^\W_])([_/])(?=[^\W_])")


def render(report: Mapping[str, Any], out: Path) -> None:
    """Write every form of the report into `out`, replacing an earlier report's files."""
    drawings, all_tables = draw(report), tables(report)
    for folder in ("figures", "tables"):
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    svgs = {drawing.name: to_svg(drawing) for drawing in drawings}
    for drawing in drawings:
        _write(out / "figures" / f"{drawing.name}.svg", svgs[drawing.name])
        (out / "figures" / f"{drawing.name}.pdf").write_bytes(to_pdf(drawing))
    for table in all_tables:
        _write(out / "tables" / f"{table.name}.csv", to_csv(table))
        _write(out / "tables" / f"{table.name}.tex", latex.table(table))
    _write(out / "report.json", to_json(report))
    _write(out / "report.html", to_html(report, drawings, all_tables, svgs))
    _write(out / "report.md", to_markdown(report, drawings, all_tables))
    _write(out / "report.tex", to_latex(report, drawings, all_tables))


def to_json(report: Mapping[str, Any]) -> str:
    """report.json's text: nan-free, in a stable order."""
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(table: Table) -> str:
    """Raw values of a table, one line per row; an empty cell is a number that cannot be had."""
    columns = list(dict.fromkeys(key for row in table.raw for key in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.raw)
    return buffer.getvalue()


def to_html(
    report: Mapping[str, Any],
    drawings: list[Drawing],
    all_tables: list[Table],
    svgs: Mapping[str, str],
) -> str:
    """One self-contained page: style and figures inside, nothing loaded from elsewhere."""
    environment = _environment(autoescape=True)
    environment.filters |= {"keep": _keep_together, "code": _code, "breaks": _breaks}
    return environment.get_template("report.html.j2").render(
        **_content(report, drawings, all_tables),
        svgs={name: Markup(svg) for name, svg in svgs.items()},
        style=Markup(environment.get_template("report.css").render()),
    )


def to_markdown(report: Mapping[str, Any], drawings: list[Drawing], all_tables: list[Table]) -> str:
    """The same content as Markdown, figures linked from figures/."""
    environment = _environment(autoescape=False)
    environment.filters["md"] = markdown_escape
    text = environment.get_template("report.md.j2").render(**_content(report, drawings, all_tables))
    return text.strip() + "\n"


def to_latex(report: Mapping[str, Any], drawings: list[Drawing], all_tables: list[Table]) -> str:
    """The same content as a LaTeX document, figures from figures/ and tables from tables/."""
    # LaTeX is full of braces.
    marks = {"variable_start_string": "<<", "variable_end_string": ">>",
             "block_start_string": "<%", "block_end_string": "%>",
             "comment_start_string": "<#", "comment_end_string": "#>"}  # fmt: skip
    environment = _environment(autoescape=False).overlay(**marks)
    environment.filters["tex"] = latex.escape
    template = environment.get_template("report.tex.j2")
    return template.render(**_content(report, drawings, all_tables))


def markdown_escape(text: object) -> str:
    """Text that Markdown and the HTML inside it print as it stands, on one line."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "\\`*_[]|#$~":
        escaped = escaped.replace(character, "\\" + character)
    return " ".join(escaped.split())


def _keep_together(sentence: str) -> str:
    """No line break inside `p = .03` or `95 %`."""
    return sentence.replace("p = ", "p\u00a0=\u00a0").replace(" %", "\u00a0%")


def _code(sentence: str) -> Markup:
    """Options of a command and words in backticks, set as code that no line break divides."""
    return Markup(_CODE.sub(lambda found: f"<code>{found[0].strip('`')}</code>", escape(sentence)))


def _breaks(text: str) -> Markup:
    """A name may break where its words end, before it breaks anywhere."""
    return Markup(_JOINTS.sub(r"\1<wbr>", str(escape(text))))


def _content(report, drawings, all_tables) -> dict[str, Any]:
    present = {d.section for d in drawings} | {t.section for t in all_tables} | {"provenance"}
    findings = [c for c in report["comparisons"] if c["condition"] != "pooled"]
    return {
        "report": report,
        "design": report["design"],
        "design_rows": _design_rows(report["design"]),
        "sections": [(key, title) for key, title in SECTIONS if key in present],
        "drawings": drawings,
        "tables": all_tables,
        "symbols": SYMBOLS,
        "reasons": REASONS,
        "findings": [
            {
                "verdict": c["verdict"],
                "sentence": words.finding(c),
                "why": (c["reason"] or "").replace("_", " "),
            }
            for c in findings[:MOST_FINDINGS]
        ],
        "fold_from": FOLD_FROM,
        "findings_left": max(0, len(findings) - MOST_FINDINGS),
        "paragraphs": {key: paragraphs(report, key) for key, _ in SECTIONS},
        "provenance_rows": [
            *_flatten(report["provenance"]),
            *((f"report written with {name}", v) for name, v in report["versions"].items()),
        ],
        "p": words.p_number,
        "number": words.number,
    }


def _design_rows(design: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("Plan's hash", design["hash"] or "none: nothing was declared beforehand"),
        ("Arms", ", ".join(design["arms"])),
        ("Conditions", ", ".join(design["conditions"])),
        ("Metrics", ", ".join(design["metrics"])),
        ("Seeds", ", ".join(map(str, design["seeds"]))),
        ("α, family-wise", f"{design['alpha']:g}"),
        ("Looks planned", f"{design['looks_planned']}, α per look {design['alpha_per_look']:.3g}"),
        ("Margin δ", "none declared" if design["margin"] is None else f"{design['margin']:g}"),
        ("Chance level", "none given" if design["chance"] is None else f"{design['chance']:g}"),
        ("Primary test", design["primary_test"]),
        ("Correction", f"{design['correction']}, over a family of {design['family_size']}"),
        ("Smallest p that can be reached", words.p_number(design["p_min"])),
        ("Seeds that the family needs", str(design["seeds_needed"])),
        ("Smallest d_z found with 80 % power", words.number(design["minimum_detectable_dz"], 2)),
        ("Seed of the random generator", str(design["rng_seed"])),
    ]
    return [(key, value) for key, value in rows if value]


def _flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [row for key, item in value.items() for row in _flatten(item, f"{path} {key}")]
    if isinstance(value, list):
        if all(not isinstance(item, dict | list) for item in value):
            return [(path.strip(), ", ".join(map(str, value)) or "none")]
        return [row for i, item in enumerate(value) for row in _flatten(item, f"{path} {i + 1}")]
    return [(path.strip(), "none" if value is None else str(value))]


def _environment(*, autoescape: bool) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
