"""Numbers, p-values, differences and intervals as text."""

from __future__ import annotations

import math

from analysis.inputs import FRACTION

MINUS = "−"


def is_percent(unit: str | None) -> bool:
    """Whether scores in this unit are shown in percent and their differences in points."""
    return unit == FRACTION


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with a true minus sign; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    text = f"{size:.{digits}f}" if 1e-3 <= size < 1e5 else f"{size:.2g}"
    return (MINUS if value < 0 else "") + text


def p_text(p: float | None) -> str:
    """`p = .0078`; a dash where there is none."""
    return "p –" if p is None else f"p = {p_number(p)}"


def p_number(p: float | None) -> str:
    """The bare figure of a p-value: `.0078`, `1`, `1.9e-06`."""
    if p is None:
        return "–"
    if p >= 0.9995:
        return "1"
    if p >= 0.0001:
        return f"{p:.3f}".lstrip("0") if p >= 0.1 else f"{float(f'{p:.2g}'):f}".strip("0")
    return f"{p:.1e}"


def score(value: float | None, unit: str | None) -> str:
    """A score without its unit; a fraction in percent."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if is_percent(unit) else number(value)


def difference(value: float | None, unit: str | None, *, signed: bool = True) -> str:
    """A difference without its unit; of fractions in percentage points."""
    if value is None:
        return "–"
    # A mean of fractions that cancel is 0, not 1e-18.
    scaled = round(100 * value, 12) if is_percent(unit) else value
    digits = (2 if 0 < abs(scaled) < 0.095 else 1) if is_percent(unit) else 3
    text = f"{abs(scaled):.{digits}f}" if scaled == 0 or abs(scaled) >= 1e-3 else f"{scaled:.1e}"
    if float(text.strip("−")) == 0:
        return text
    sign = MINUS if value < 0 else "+" if signed else ""
    return sign + text.lstrip("-")


def after_difference(unit: str | None) -> str:
    """What follows a difference: ` points` for fractions, else the unit."""
    return " points" if is_percent(unit) else after_score(unit)


def after_score(unit: str | None) -> str:
    """What follows a score: its unit; nothing for fractions, whose tables are in percent."""
    return f" {unit}" if unit and not is_percent(unit) else ""


def with_unit(metric: str, unit: str | None) -> str:
    """A metric as an axis names it: `test/top1 (%)`, `test/gain (dB)`, `test/loss`."""
    shown = "%" if is_percent(unit) else unit
    return f"{metric} ({shown})" if shown else metric


def interval(low: float | None, high: float | None, unit: str | None) -> str:
    """`95 % interval +1.9 to +4.5`, or why there is none."""
    if low is None or high is None:
        return "no interval"
    limits = f"{difference(low, unit)} to {difference(high, unit)}"
    return f"95 % interval {limits}{after_difference(unit)}"


def base_metric(metric: str) -> str:
    """`auc(val/knn_top1, epochs 1-4)` as `val/knn_top1, mean over epochs 1–4`."""
    if metric.startswith("auc("):
        name, window = metric[4:-1].split(",", 1)
        return f"{name.strip()}, mean over {window.strip().replace('-', '–')}"
    return metric
