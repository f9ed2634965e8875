"""The report as files and as a Python object."""

from __future__ import annotations

from analysis.rendering.report_object import ClaimAnswer, Report
from analysis.rendering.write import page, render

__all__ = ["ClaimAnswer", "Report", "page", "render"]
