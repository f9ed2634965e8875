"""How are numbers and verdicts said in words?

Three phrases never appear in a report: that two arms show no difference, that a result trends
towards significance, and a p-value of exactly zero. p-values are written without the leading zero.
"""

from __future__ import annotations

import math

from analysis.metric import is_accuracy
from analysis.verdicts import REASONS

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


def finding(record: dict) -> str:
    """What one comparison found, as a sentence with its interval, p-values and seeds."""
    a, b, metric = record["a"], record["b"], record["metric"]
    evidence = _evidence(record)
    if record["verdict"] == "invalid":
        return f"{b} and {a} cannot be compared {_where(record)}: {REASONS[record['reason']]}."
    size = difference(abs(record["mean_difference"]), metric, signed=False) + unit(metric)
    if record["kind"] == "interaction":
        gain = (record["mean_difference"] > 0) == record["higher_is_better"]
        word = "less" if gain else "more"
        before, after = record["condition"].split(" → ", 1)
        text = f"Going from {before} to {after}, {b} is hurt {size} {word} than {a} on {metric}"
    else:
        higher = "above" if record["mean_difference"] >= 0 else "below"
        text = f"{b} is {size} {higher} {a} {_where(record)}"
    if record["verdict"] == "equivalent" or record["within_margin"]:
        edge = difference(record["margin"], metric, signed=False) + unit(metric)
        text += f", within the margin of ±{edge}"
    return f"{text} ({evidence})."


def claim_sentence(asks: str, verdict: str, record: dict) -> str:
    """The answer to a claim in one sentence; what an undecided one would take follows."""
    lead = {
        "supported": "Supported",
        "refuted": "Refuted",
        "undecided": "Undecided",
        "invalid": "Cannot be answered",
    }[verdict]
    text = f"{lead}: {finding(record)}"
    if record["exploratory"]:
        text = f"{lead} (exploratory): {finding(record)}"
    if verdict == "undecided":
        text += f" Why: {REASONS[record['reason']]}. {what_it_takes(record)}".rstrip()
    return text


def early_minus_late(record: dict) -> str:
    """Whether an early advantage is larger than the one at the end."""
    found, metric = record["early_minus_late"], record["metric"]
    size = difference(found["mean_difference"], metric) + unit(metric)
    limits = interval(found["ci_low"], found["ci_high"], metric)
    return (
        f"The advantage of {record['b']} over {record['a']} in the declared window, minus that at"
        f" epoch {found['last_epoch']}, is {size} ({limits}; {p_text(found['p_value'])}, not"
        " corrected). “Faster, not better” needs it above 0."
    )


def what_it_takes(record: dict) -> str:
    """Seeds that would decide, for the next study."""
    if record["reason"] not in ("insufficient_evidence", "design_cannot_reach"):
        return ""
    needed, for_margin = record["seeds_needed"], record["seeds_for_margin"]
    parts = []
    if needed is None:
        parts.append("More than 10,000 seeds would be needed to show a difference of this size")
    else:
        parts.append(f"A difference of this size would take {needed} seeds in all at 80 % power")
    if for_margin is not None:
        parts.append(f"one as large as the margin would take {for_margin}")
    return "; ".join(parts) + "."


def next_study(records: list[dict]) -> str | None:
    """How to add the seeds that undecided claims would take; None where none would help."""
    needed = [
        r["seeds_needed"]
        for r in records
        if r["declared"] and r["reason"] in ("insufficient_evidence", "design_cannot_reach")
    ]
    known = [n for n in needed if n is not None]
    if not known:
        return None
    return (
        f"To decide the undecided claims at the differences seen, {max(known)} seeds are needed:"
        f" a new study with --name NEW --set confirm.seeds={max(known)} answers them afresh. With"
        " --resume instead of --name the same study grows; that is another look at the data, which"
        " is logged and makes the verdicts exploratory unless `looks` planned it."
    )


def _where(record: dict) -> str:
    metric = base_metric(record["metric"])
    if record["condition"] == "default":
        return f"on {metric}"
    return f"on {metric}, {record['condition']}"


def _evidence(record: dict) -> str:
    metric = record["metric"]
    adjusted = p_number(record["p_adjusted"])
    parts = [interval(record["ci_low"], record["ci_high"], metric), p_text(record["p_value"])]
    if record["family_size"] > 1:
        parts.append(f"Holm-adjusted {adjusted}")
    return "; ".join([*parts, f"{record['n_pairs']} seeds"])
