"""The paragraphs with which sections of the report begin, before figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.wording import numbers
from analysis.wording import sentences as words

Paragraph = tuple[str, str]  # a claim's id or nothing, and the text


def paragraphs(report: Mapping[str, Any], section: str) -> list[Paragraph]:
    """The texts of a section, the same in every form of the report."""
    writers = {"missing": _missing, "curves": _curves, "search": _search}
    return list(writers[section](report)) if section in writers else []


def _missing(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    for c in report["comparisons"]:
        if not c["sensitivity"] or not c["declared"]:
            continue
        found, broke = c["sensitivity"], c["failures"]
        if found["scored_at_chance"]:
            rest = f"with broken runs scored at chance ({found['chance']:g}) it is"
            rest += f" {found['scored_at_chance']}"
        else:
            rest = found["reason"]
        yield (
            c["claim"],
            (
                f"{broke['b']} runs of {c['b']} and {broke['a']} of {c['a']} broke down "
                f"(McNemar's exact p {numbers.p_number(broke['p_mcnemar'])}). On complete "
                f"pairs the verdict is {found['pairwise_complete']}; {rest}."
            ),
        )


def _curves(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    for c in report["comparisons"]:
        if c["kind"] == "curve" and c.get("early_minus_late"):
            yield c["claim"], words.early_minus_late(c)


def _search(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    yield "", "The search chose settings on the validation split; none of its scores is a result."
    arms: dict[str, list[str]] = {}
    for s in report["search"]:
        if s["importance"]["reason"]:
            arms.setdefault(s["importance"]["reason"], []).append(s["arm"])
    for why, names in arms.items():
        yield "", f"No importance of settings for {', '.join(names)}: {why}."
