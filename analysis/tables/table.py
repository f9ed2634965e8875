"""A table of the report, and the texts of its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# The texts that a cell shows for what is not there.
NONE = "–"


@dataclass(frozen=True)
class Table:
    """A table: `columns` are headers, `rows` text cells, `raw` mappings for CSV.

    `numeric` says which columns hold figures and are set flush right; `anchors`, if any, are the
    ids of the rows on the page.
    """

    name: str
    section: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    raw: list[dict]
    numeric: tuple[bool, ...]
    anchors: tuple[str, ...] = ()


def table(
    name,
    section,
    title,
    note,
    records,
    *columns: tuple[str, Callable],
    raw: list | None = None,
    anchors: Sequence[str] = (),
) -> Table:
    """A table of one row per record; `raw` are the CSV's records where those are more.

    A column whose header starts with # holds figures.
    """
    return Table(
        name,
        section,
        title,
        note,
        tuple(header.lstrip("#") for header, _ in columns),
        [tuple(cell(record) for _, cell in columns) for record in records],
        [_flat(record) for record in raw or records],
        tuple(header.startswith("#") for header, _ in columns),
        tuple(anchors),
    )


def _flat(record: dict) -> dict:
    """Scalars of a record, pairs of limits spelled out; lists of points stay in report.json."""
    flat = {}
    for key, value in record.items():
        if isinstance(value, list) and key.endswith("_ci"):
            flat[f"{key}_low"], flat[f"{key}_high"] = value
        elif isinstance(value, dict):
            flat |= {f"{key}_{k}": v for k, v in value.items() if not isinstance(v, dict | list)}
        elif not isinstance(value, list):
            flat[key] = value
    return flat


def interval(low, high, show: Callable, reason: str | None = None) -> str:
    if low is None or high is None:
        return reason.replace("_", " ") if reason else NONE
    return f"[{show(low)}, {show(high)}]"


def cost(value: float | None, absent: str = NONE) -> str:
    if value is None:
        return absent
    if value >= 1e9:  # FLOPs
        return f"{value:.2e}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def percent(value: float | None) -> str:
    return "" if value is None else f" ({100 * value:.0f} %)"


def share(value: float | None) -> str:
    """A probability; what rounds to a certainty is a limit."""
    if value is None:
        return NONE
    return "< .01" if value < 0.005 else "> .99" if value > 0.995 else f"{value:.2f}".lstrip("0")


def setting(value: Any) -> str:
    return NONE if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def ranges(epochs: list[float]) -> str:
    """1, 2, 3, 7 as `1–3, 7`."""
    parts: list[list[float]] = []
    for epoch in epochs:
        if parts and epoch == parts[-1][1] + 1:
            parts[-1][1] = epoch
        else:
            parts.append([epoch, epoch])
    return ", ".join(f"{a:g}" if a == b else f"{a:g}–{b:g}" for a, b in parts) or "none"
