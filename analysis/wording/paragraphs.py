"""The paragraphs with which sections of the report begin, before figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from analysis.inputs import FRACTION
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
        "cost": _cost,
        "search": _search,
        "embedding": _embedding,
        "robustness": _robustness,
    }
    return list(writers[section](report)) if section in writers else []


def beside(report: Mapping[str, Any], claim: str) -> list[str]:
    """What a reader should weigh beside a verdict, in a few words each; none if it is invalid.

    The simultaneous interval, the spread over searches and seeds, the trials tied with the
    winners, the sampling of the test images, and the look that decided.
    """
    c = next(c for c in report["comparisons"] if c["claim"] == claim)
    if c["verdict"] == "invalid":
        return []
    parts = [
        *_simultaneous(c), *_spread(c), *_ties(report, c), *_images(report, c),
        *_look(c, report["design"]),
    ]  # fmt: skip
    return [part[0].upper() + part[1:] if i == 0 else part for i, part in enumerate(parts)]


def _simultaneous(c: Mapping[str, Any]) -> Iterator[str]:
    low, high = c["simultaneous_ci"]
    if c["family_size"] > 1 and low is not None:
        yield f"simultaneous {numbers.interval(low, high, c['unit'])}"


def _spread(c: Mapping[str, Any]) -> Iterator[str]:
    """How much the difference varies, split into search and seed where the data allow it."""
    unit, lead = c["unit"], "spread (sd) of the difference"
    if c["sd_search"] is not None:
        search, seed = _sd(c["sd_search"], unit), _sd(c["sd_seed"], unit)
        yield f"{lead} {search} between searches, {seed} between seeds"
    elif c["sd_difference"] is not None:
        both = " (search and seed together)" if c["unit_of_analysis"] == "replicate" else ""
        sd = _sd(c["sd_difference"], unit)
        yield f"{lead} {sd} between {c['unit_of_analysis']}s{both}"


def _ties(report: Mapping[str, Any], c: Mapping[str, Any]) -> Iterator[str]:
    """How many trials the winners of both arms are tied with."""
    ties = {s["arm"]: s["ties"] for s in report["search"]}
    known = [
        arm
        for arm in (c["b"], c["a"])
        if arm in ties and ties[arm]["tied"] is not None and ties[arm]["others"]
    ]
    if known:
        counts = [f"{ties[arm]['tied']} of {ties[arm]['others']}" for arm in known]
        counts[0] += " other trials"
        of_arms = ", ".join(f"{n} of {arm}" for n, arm in zip(counts, known, strict=True))
        yield f"tied with a winner: {of_arms}"


def _images(report: Mapping[str, Any], c: Mapping[str, Any]) -> Iterator[str]:
    """How far the score of either arm would move with other test images."""
    own = [
        a
        for a in report["arms"]
        if a["image_se"] and a["metric"] == c["metric"] and a["arm"] in (c["a"], c["b"])
    ]
    if own:
        worst = max(own, key=lambda a: a["image_se"])
        size = _sd(worst["image_se"], worst["unit"])
        yield f"standard error of a score on {worst['images']:,} test images {size}"


def _look(c: Mapping[str, Any], design: Mapping[str, Any]) -> Iterator[str]:
    """When a claim was decided; the planned looks spend all of α."""
    if not c["decided_at"]:
        return
    units = f"{c['decided_at']} {c['unit_of_analysis']}s"
    if c["decided_at"] <= design["looks_at"][-1]:
        yield f"decided at the look after {units}"
    else:
        yield (
            f"decided after {units}, beyond the last planned look, by the e-process: plan and"
            f" growth together err in up to {2 * design['alpha']:g} of all studies"
        )


def _answers(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    unit = report["design"]["unit_of_analysis"] or "seed"
    text = f"All tests are paired: they use the difference of two arms within each {unit}."
    supported = [c for c in report["comparisons"] if c["declared"] and c["verdict"] == "better"]
    limits = [c["simultaneous_ci"] for c in supported if c["ci_low"] is not None]
    if any(low < 0 < high for low, high in limits):
        text += (
            " Verdicts come from the sign-flip test of all claims together, simultaneous intervals"
            " from Student's t: one may hold 0 though its claim is supported."
        )
    yield "", text
    noise = [s for s in report["search"] if s["ties"]["sd_seed"] is not None]
    if noise:
        each = ", ".join(f"{_sd(s['ties']['sd_seed'], s['unit'])} for {s['arm']}" for s in noise)
        rechecked = any(w["trainings"] > 1 for s in noise for w in s["winners"])
        yield (
            "",
            "A trial is tied with the winner of its search where it is behind by no more than one"
            f" standard error of the difference: √2{' (less after rechecks)' if rechecked else ''}"
            f" times the sd of {noise[0]['metric']} between trainings of the same settings,"
            f" {each}. Only trials that ran to their end are counted.",
        )


def _sd(value: float, unit: str | None) -> str:
    return numbers.difference(value, unit, signed=False) + numbers.after_difference(unit)


def _estimates(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    worst: dict[str, Mapping[str, Any]] = {}
    for a in report["arms"]:
        if a["image_se"] and a["image_se"] > worst.get(a["metric"], {"image_se": 0})["image_se"]:
            worst[a["metric"]] = a
    if worst:
        each = ", ".join(f"{m} by ±{_sd(a['image_se'], a['unit'])}" for m, a in worst.items())
        images = " or ".join(f"{n:,}" for n in sorted({a["images"] for a in worst.values()}))
        yield (
            "",
            f"Another sample of the {images} test images would move {each} (one standard error)."
            " All runs share these images, so no interval covers it.",
        )


def _cost(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    if report["cost"]["trade_off"] and report["cost"]["differs"] is None:
        yield "", "The arms' runs cost the same, or differ by no more than their intervals."


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


def _embedding(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    found = report["embedding"]
    if not found:
        return
    if found["reason"]:
        yield "", f"The figure `embedding` cannot be drawn: {found['reason']}."
    for arm in found["arms"]:
        if arm["reason"] and not found["reason"]:
            yield "", f"{arm['arm']} is not drawn: {arm['reason']}."
    if found["left_out"]:
        yield "", f"Not drawn, since six arms fit: {', '.join(found['left_out'])}."


def _robustness(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    found = report["robustness"]
    if not found:
        return
    for c in found["claims"]:
        yield c["claim"], _held(c)
    if found["thinned"]:
        (bank, test), (all_bank, all_test) = found["thinned"]["kept"], found["thinned"]["images"]
        yield (
            "",
            f"Features of {bank:,} of {all_bank:,} training and {test:,} of {all_test:,} test"
            " images were kept, so that accuracies differ a little from those of the runs.",
        )
    if found["unused"]:
        first = found["unused"][0]
        rest = len(found["unused"]) - 1
        yield (
            "",
            f"Left out, with its pair: {first['arm']}, {first['condition']}, seed {first['seed']},"
            f" whose features are {first['why']}{f'; and {rest} more runs' if rest else ''}.",
        )


def _held(c: Mapping[str, Any]) -> str:
    if not c["choices"]:
        return f"not evaluated again: {c['reason']}."
    least, largest = (c[key] for key in ("least", "largest"))
    low, high = (numbers.difference(row["mean_difference"], FRACTION) for row in (least, largest))
    return (
        f"holds in {c['holds']} of {c['choices']} evaluations, in {c['surely'] or 'none'} of them"
        f" with its whole 95 % interval; from {low} ({least['label']}) to {high} points"
        f" ({largest['label']})."
    )


def _search(report: Mapping[str, Any]) -> Iterator[Paragraph]:
    yield "", "The search chose settings on the validation split; none of its scores is a result."
    arms: dict[str, list[str]] = {}
    for s in report["search"]:
        if s["importance"]["reason"]:
            arms.setdefault(s["importance"]["reason"], []).append(s["arm"])
    for why, names in arms.items():
        yield "", f"No importance of settings for {', '.join(names)}: {why}."
