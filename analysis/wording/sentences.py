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
        return f"{b} and {a} cannot be compared {_where(record)}: {why(record)}."
    b, a = _tuned(record)
    size = difference(abs(record["mean_difference"]), unit, signed=False) + after_difference(unit)
    if record["kind"] == "interaction":
        gain = (record["mean_difference"] > 0) == (record["better"] == "higher")
        does, _ = _change(record)
        word = "more" if gain == (does == "improves") else "less"
        before, after = record["condition"].split(" → ", 1)
        text = (
            f"Going from {before} to {after}, {b} {does} by {size} {word} than {a}"
            f" on {record['metric']}"
        )
    else:
        higher = "above" if record["mean_difference"] >= 0 else "below"
        text = f"{b} is {size} {higher} {a} {_where(record)}"
    if record["margin"] is not None:
        edge = difference(record["margin"], unit, signed=False) + after_difference(unit)
        if record["verdict"] == "equivalent":
            text += f", within the margin of ±{edge}"
        elif record["within_margin"]:
            text += f", by less than the margin of {edge}"
        elif record["verdict"] == "not_better":
            what = _change(record)[1] if record["kind"] == "interaction" else "better"
            text += f": not {what} by the margin of {edge}"
    return f"{text} ({evidence})."


def _change(record: dict) -> tuple[str, str]:
    """What the other condition does to both arms, and of what the claimed one has more or less."""
    sign = 1 if record["better"] == "higher" else -1
    improve = all(sign * change > 0 for change in record["mean_changes"])
    return ("improves", "more") if improve else ("degrades", "less")


def why(record: dict) -> str:
    """The reason of an undecided or invalid comparison, in words."""
    return REASONS[record["reason"]].format(unit=record["unit_of_analysis"])


def claim_sentence(asks: str, verdict: str, record: dict) -> str:
    """The answer to a claim in one sentence; what an undecided one would take follows."""
    lead = {
        "supported": "Supported",
        "refuted": "Refuted",
        "undecided": "Undecided",
        "invalid": "Cannot be answered",
    }[verdict]
    if verdict == "supported" and record["within_margin"] and asks != "equivalent":
        lead += ", by less than the margin"
    if verdict == "refuted" and record["verdict"] == "worse":
        lead += ", worse"
    if record["exploratory"]:
        lead += " (exploratory)"
    text = f"{lead}: {finding(record)}"
    if record["scope"] == "configuration" and record["trials"] and verdict != "invalid":
        text += " This is about the frozen settings; another search may freeze others."
    if record["selected_on"] and verdict != "invalid":
        text += f" {selection_note(record['selected_on'])}"
    if record["mixed_units"] and verdict != "invalid":
        units = f"{record['mixed_units']} of {record['n_units']} {record['unit_of_analysis']}s"
        text += f" In {units} the two arms ran in different environments."
    if verdict == "undecided":
        text += f" Why: {why(record)}. {what_it_takes(record)}".rstrip()
    return text


def selection_note(selected_on: str) -> str:
    """What a claim on figures that chose the winners is worth (`inputs.selected_on`)."""
    return f"This is a claim about {selected_on}, on which the winners were selected."


def early_minus_late(record: dict) -> str:
    """Whether an early advantage is larger than the one at the end."""
    found, unit = record["early_minus_late"], record["unit"]
    end = "the end" if found["last_epoch"] is None else f"epoch {found['last_epoch']}"
    size = difference(found["mean_difference"], unit) + after_difference(unit)
    limits = interval(found["ci_low"], found["ci_high"], unit)
    return (
        f"The advantage of {record['b']} over {record['a']} in the declared window, minus that at"
        f" {end}, is {size} ({limits}; {p_text(found['p_value'])}, not"
        " corrected). “Faster, not better” needs it above 0."
    )


def what_it_takes(record: dict) -> str:
    """What would decide, for the next study: for a difference of the margin, not the one seen."""
    unit = record["unit_of_analysis"]
    if record["reason"] == "one_search":
        return "Repeat the search independently: search.replicates, 6 or more."
    if record["reason"] not in ("insufficient_evidence", "design_cannot_reach"):
        return ""
    if record["units_for_margin"] is not None:
        return (
            f"A difference as large as the margin would take {record['units_for_margin']} {unit}s"
            " in all at 80 % power."
        )
    shown = record["minimum_detectable_difference"]
    if shown is None:
        return ""
    size = difference(shown, record["unit"], signed=False) + after_difference(record["unit"])
    return f"So many {unit}s show a difference of {size} at 80 % power."


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
    """How to add the units that undecided claims would take; None where none would help."""
    undecided = [
        r
        for r in records
        if r["declared"] and r["reason"] in ("insufficient_evidence", "design_cannot_reach")
    ]
    known = [r["units_for_margin"] for r in undecided if r["units_for_margin"] is not None]
    if not known:
        return None
    unit = undecided[0]["unit_of_analysis"]
    setting = "search.replicates" if unit == "replicate" else "confirm.seeds"
    return (
        f"To decide the undecided claims if differences are as large as the margin, {max(known)}"
        f" {unit}s are needed: a new study with --name NEW --set {setting}={max(known)} answers"
        " them afresh. With --resume instead of --name the same study grows; that is another look"
        " at the data, which is logged and makes the verdicts exploratory unless it was planned."
    )


def _tuned(record: dict) -> tuple[str, str]:
    """Names of both arms, with how they were tuned where the claim is about methods."""
    a, b = record["a"], record["b"]
    if record["scope"] != "method" or record["unit_of_analysis"] != "replicate":
        return b, a
    trials = f"{record['trials']} trials, " if record["trials"] else ""
    how = f"{trials}{record['n_units']} times independently"
    return f"{b}, tuned by this search ({how}),", f"{a}, tuned likewise,"


def _where(record: dict) -> str:
    metric = base_metric(record["metric"])
    if record["condition"] == "default":
        return f"on {metric}"
    return f"on {metric}, {record['condition']}"


def _evidence(record: dict) -> str:
    """Interval, p and units; a claim's p-values are those that decide, one for each answer."""
    limits = interval(record["ci_low"], record["ci_high"], record["unit"])
    if record["asks"]:
        supports, refutes = p_text(record["p_supports"]), p_number(record["p_refutes"])
        p = f"adjusted {supports} for support, {refutes} for refutation"
    else:
        p = p_text(record["p_value"])
        if record["family_size"] > 1:
            p += f"; adjusted {p_number(record['p_adjusted'])}"
    return f"{limits}; {p}; {record['n_units']} paired {record['unit_of_analysis']}s"
