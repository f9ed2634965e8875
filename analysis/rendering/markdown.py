"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.figures import Drawing
from analysis.rendering.content import content, jinja_environment
from analysis.tables import Table


def to_markdown(report: Mapping[str, Any], drawings: list[Drawing], all_tables: list[Table]) -> str:
    """The same content as Markdown, figures linked from figures/."""
    environment = jinja_environment(autoescape=False)
    environment.filters["md"] = markdown_escape
    text = environment.get_template("report.md.j2").render(**content(report, drawings, all_tables))
    return text.strip() + "\n"


def markdown_escape(text: object) -> str:
    """Text that Markdown and the HTML inside it print as it stands, on one line."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "\\`*_[]|#$~":
        escaped = escaped.replace(character, "\\" + character)
    return " ".join(escaped.split())
