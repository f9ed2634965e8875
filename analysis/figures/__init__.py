"""The figures of a report."""

from __future__ import annotations

from analysis.figures.report_figures import draw
from analysis.figures.style import Drawing, to_pdf, to_svg

__all__ = ["Drawing", "draw", "to_pdf", "to_svg"]
