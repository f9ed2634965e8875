"""The tables of a report."""

from __future__ import annotations

from analysis.tables.report_tables import tables
from analysis.tables.table import Table

__all__ = ["Table", "tables"]
