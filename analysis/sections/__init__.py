"""The sections of a report, and the report assembled from them."""

from __future__ import annotations

from analysis.sections.assemble import assemble_report

__all__ = ["assemble_report"]
