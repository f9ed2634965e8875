"""The paragraphs with which sections of the report begin, before figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.wording import numbers
from analysis.wording import sentences as words

Paragraph = tuple[str, str]  # a claim's id or nothing, and the text


def paragraphs(report: Mapping[str, Any], section: str) -> list[Paragraph]:
    """The texts of a section, the same in every form of the report."""
    writers = {
        "answers": _answers,
        "estimates": _estimates,
        "missing": _missing,
        "curves": _curves,
        "search": _search,
    }
    return list(writers[section](report)) if section in writers else []


def _answers(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    yield (
        "",
        "All tests are paired: both arms are compared within each unit, a replicate or a seed.",
    )
    for c in report["comparisons"]:
        if not c["declared"] or c["verdict"] == "invalid":
            continue
        unit, low, high = c["unit"], *c["simultaneous_ci"]
        text = f"scope {c['scope']}, {c['n_units']} {c['unit_of_analysis']}s"
        if low is not None:
            text += f"; simultaneous {numbers.interval(low, high, unit)}"
        if c["sd_search"] is not None:
            text += (
                f"; sd of the difference between searches {_sd(c['sd_search'], unit)}, between"
                f" seeds {_sd(c['sd_seed'], unit)}"
            )
        elif c["sd_difference"] is not None:
            text += (
                f"; sd of the difference between {c['unit_of_analysis']}s"
                f" {_sd(c['sd_difference'], unit)}"
            )
        if c["decided_at"]:
            text += f"; decided at the look after {c['decided_at']} units"
        yield c["claim"], f"{text}."


def _sd(value: float, unit: str | None) -> str:
    return numbers.difference(value, unit, signed=False) + numbers.after_difference(unit)


def _estimates(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    for metric in dict.fromkeys(a["metric"] for a in report["arms"]):
        own = [a for a in report["arms"] if a["metric"] == metric and a["image_se"]]
        if own:
            worst = max(own, key=lambda a: a["image_se"])
            yield (
                "",
                (
                    f"{metric} counts {worst['images']:,} test images: another sample of them"
                    f" would move a score by ±{_sd(worst['image_se'], worst['unit'])} (one"
                    " standard error). All runs share these images, so no interval covers it."
                ),
            )


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
