"""The files of a report: report.json, .html, .md and .tex, tables/ and figures/.

They are written from the report mapping alone; nothing is decided here.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.figures import draw, to_pdf, to_svg
from analysis.rendering import latex
from analysis.rendering.html import to_html
from analysis.rendering.latex import to_latex
from analysis.rendering.markdown import to_markdown
from analysis.spreadsheet import inert
from analysis.tables import Table, tables


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


def page(report: Mapping[str, Any]) -> str:
    """The report as one self-contained HTML page."""
    drawings = draw(report)
    svgs = {drawing.name: to_svg(drawing) for drawing in drawings}
    return to_html(report, drawings, tables(report), svgs)


def to_json(report: Mapping[str, Any]) -> str:
    """report.json's text: nan-free, in a stable order."""
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(table: Table) -> str:
    """Raw values of a table, one line per row; an empty cell is a number that is not defined."""
    columns = list(dict.fromkeys(key for row in table.raw for key in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: inert(cell) for key, cell in row.items()} for row in table.raw)
    return buffer.getvalue()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
