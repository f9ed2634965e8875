"""The report as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from analysis.figures import Drawing
from analysis.rendering.content import content, jinja_environment
from analysis.tables import Table

_CODE = re.compile(r"`\S+`|--[a-z-]+(?: (?:[A-Z]+|[\w.]+=\w+)\b)?")
_JOINTS = re.compile(r"(?<=[^\W_])([_/])(?=[^\W_])")


def to_html(
    report: Mapping[str, Any],
    drawings: list[Drawing],
    all_tables: list[Table],
    svgs: Mapping[str, str],
) -> str:
    """One self-contained page: style and figures inside, nothing loaded from elsewhere."""
    environment = jinja_environment(autoescape=True)
    environment.filters |= {"keep": _keep_together, "code": _code, "breaks": _breaks}
    return environment.get_template("report.html.j2").render(
        **content(report, drawings, all_tables),
        svgs={name: Markup(svg) for name, svg in svgs.items()},
        style=Markup(environment.get_template("report.css").render()),
    )


def _keep_together(sentence: str) -> str:
    """No line break inside `p = .03` or `95 %`."""
    return sentence.replace("p = ", "p\u00a0=\u00a0").replace(" %", "\u00a0%")


def _code(sentence: str) -> Markup:
    """Options of a command and words in backticks, set as code that no line break divides."""
    return Markup(_CODE.sub(lambda found: f"<code>{found[0].strip('`')}</code>", escape(sentence)))


def _breaks(text: str) -> Markup:
    """A name may break where its words end, before it breaks anywhere."""
    return Markup(_JOINTS.sub(r"\1<wbr>", str(escape(text))))
