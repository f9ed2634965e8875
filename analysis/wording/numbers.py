"""Numbers, p-values, differences and intervals as text."""

from __future__ import annotations

import math

from analysis.inputs.metric import is_accuracy

MINUS = "−"


def is_percent(metric: str) -> bool:
    """Whether differences of this metric are told in percentage points."""
    return is_accuracy(metric)


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


def difference(value: float | None, metric: str, *, signed: bool = True) -> str:
    """A difference in the metric's unit, in percentage points for accuracies."""
    if value is None:
        return "–"
    scaled = 100 * value if is_percent(metric) else value
    digits = (2 if 0 < abs(scaled) < 0.095 else 1) if is_percent(metric) else 3
    text = f"{abs(scaled):.{digits}f}" if scaled == 0 or abs(scaled) >= 1e-3 else f"{scaled:.1e}"
    if float(text.strip("−")) == 0:
        return text
    sign = MINUS if value < 0 else "+" if signed else ""
    return sign + text.lstrip("-")


def unit(metric: str) -> str:
    return " points" if is_percent(metric) else ""


def interval(low: float | None, high: float | None, metric: str) -> str:
    """`95 % interval +1.9 to +4.5`, or why there is none."""
    if low is None or high is None:
        return "no interval"
    return f"95 % interval {difference(low, metric)} to {difference(high, metric)}{unit(metric)}"


def base_metric(metric: str) -> str:
    """`auc(val/knn_top1, epochs 1-4)` as `val/knn_top1, mean over epochs 1–4`."""
    if metric.startswith("auc("):
        name, window = metric[4:-1].split(",", 1)
        return f"{name.strip()}, mean over {window.strip().replace('-', '–')}"
    return metric
