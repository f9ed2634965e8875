"""Comparisons and answers as sentences.

Three phrases never appear in a report: that two arms show no difference, that a result trends
towards significance, and a p-value of exactly zero. p-values are written without the leading zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.verdicts import REASONS
from analysis.wording.numbers import (
    after_difference,
    base_metric,
    difference,
    interval,
    p_number,
    p_text,
)


def finding(record: dict) -> str:
    """What one comparison found, as a sentence with its interval, p-values and seeds."""
    a, b, unit = record["a"], record["b"], record["unit"]
    evidence = _evidence(record)
    if record["verdict"] == "invalid":
        return f"{b} and {a} cannot be compared {_where(record)}: {REASONS[record['reason']]}."
    size = difference(abs(record["mean_difference"]), unit, signed=False) + after_difference(unit)
    if record["kind"] == "interaction":
        gain = (record["mean_difference"] > 0) == (record["better"] == "higher")
        word = "less" if gain else "more"
        before, after = record["condition"].split(" → ", 1)
        text = (
            f"Going from {before} to {after}, {b} is hurt {size} {word} than {a}"
            f" on {record['metric']}"
        )
    else:
        higher = "above" if record["mean_difference"] >= 0 else "below"
        text = f"{b} is {size} {higher} {a} {_where(record)}"
    if record["verdict"] == "equivalent" or record["within_margin"]:
        edge = difference(record["margin"], unit, signed=False) + after_difference(unit)
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
    found, unit = record["early_minus_late"], record["unit"]
    size = difference(found["mean_difference"], unit) + after_difference(unit)
    limits = interval(found["ci_low"], found["ci_high"], unit)
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


def one_line_verdicts(report: Mapping[str, Any]) -> list[str]:
    """One sentence per claim, or per comparison without a plan, as a terminal shows them."""
    if report["claims"]:
        return [f"{claim['id']}: {claim['sentence']}" for claim in report["claims"]]
    return [f"{c['verdict']}: {finding(c)}" for c in report["comparisons"]]


def guessed_directions(report: Mapping[str, Any]) -> list[str]:
    """A line for each metric whose direction was guessed from its name."""
    return [
        f"direction guessed from the name: {m['metric']}: {m['better']} is better"
        for m in report["metrics"]
        if m["source"] == "name"
    ]


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
    unit = record["unit"]
    adjusted = p_number(record["p_adjusted"])
    parts = [interval(record["ci_low"], record["ci_high"], unit), p_text(record["p_value"])]
    if record["family_size"] > 1:
        parts.append(f"Holm-adjusted {adjusted}")
    return "; ".join([*parts, f"{record['n_pairs']} seeds"])
