"""What a paper printed for a claim: `published:` of a plan, set beside the figures found.

Nothing is decided by it: it enters no test, no verdict and no design's hash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.errors import nearest
from analysis.inputs.claim_checks import KEYS, KINDS, Fault, metrics_faults
from analysis.inputs.metric import FRACTION, Metrics, parse_metric

READ_OFF = "~"  # before a figure that was read off a plot
SOURCE = "source"


@dataclass(frozen=True)
class Figure:
    """One published score, in the metric's unit; `condition` where the claim has two."""

    arm: str
    condition: str | None
    value: float
    approximate: bool


@dataclass(frozen=True)
class Published:
    """What was published on a claim; `difference` is b - a, or a difference of differences.

    There are no figures, and no difference, where a paper says it in words only.
    """

    claim: str
    figures: tuple[Figure, ...]
    difference: float | None
    source: str | None

    @property
    def approximate(self) -> bool:
        """Whether any figure was read off a plot."""
        return any(figure.approximate for figure in self.figures)


def read_published(given: Mapping | None, claims: Iterable) -> tuple[Published, ...]:
    """What was published, in the order of the claims.

    Args:
        given: `published:` of a plan that `check_published` has no fault with.
        claims: `analysis.inputs.plan.Claim`s.
    """
    said = {str(name): entry for name, entry in (given or {}).items() if entry is not None}
    return tuple(_published(c, said[c.id]) for c in claims if c.id in said)


def check_published(plan: Mapping) -> list[Fault]:
    """Faults of `published:`; of claims that are faulty themselves only the ids are looked at.

    Example:
        >>> check_published({"claims": [], "published": {"F1": {}}})[0][1]
        'published: no claim is called F1'
    """
    given, claims = plan.get("published"), plan.get("claims") or ()
    example = "published: {F1: {ARM: 0.768, ARM: ~0.744, source: TEXT}}"
    if given is None or not isinstance(claims, list | tuple):
        return []
    if not isinstance(given, Mapping):
        return [(("published",), f"published is {given!r}", "a mapping of claims' ids", example)]
    known = Metrics(plan.get("metrics")) if not metrics_faults(plan.get("metrics")) else None
    named = {str(c["id"]): c for c in claims if isinstance(c, Mapping) and "id" in c}
    faults: list[Fault] = []
    for name, entry in given.items():
        path = ("published", name)
        if entry is None:
            continue
        if str(name) not in named:
            near = nearest(str(name), named)
            allowed = ", ".join(named) or "none: there are no claims"
            try_ = near or f"{name}: null, where a profile leaves this claim out"
            faults.append((path, f"published: no claim is called {name}", allowed, try_))
        elif not isinstance(entry, Mapping):
            what = f"published.{name} is {entry!r}"
            faults.append((path, what, "a figure for each of the claim's arms", example))
        else:
            faults += _of_entry(named[str(name)], entry, path, known)
    return faults


def _of_entry(claim: Mapping, entry: Mapping, path: tuple, known: Metrics | None) -> list[Fault]:
    source = entry.get(SOURCE)
    faults: list[Fault] = []
    if source is not None and not (isinstance(source, str) and source.strip()):
        faults.append(((*path, SOURCE), f"source is {source!r}", "a text", "source: Table 1"))
    kind = next((kind for kind in KINDS if kind in claim), None)
    metric = parse_metric(claim.get("metric", ""))
    if kind is None or metric is None or not all(k in claim for k in KEYS[kind] if k != "under"):
        return faults  # refused for what the claim itself lacks
    arms = [str(claim[kind]), str(claim[KEYS[kind][2]])]
    pair = [str(claim["from"]), str(claim["to"])] if kind == "less_hurt" else None
    unit = known.unit(metric.base) if known else None
    figures = {str(key): value for key, value in entry.items() if key != SOURCE}
    for arm, value in figures.items():
        at = (*path, arm)
        if arm not in arms:
            what = f"{path[1]} is not about an arm {arm}"
            allowed = f"{', '.join(arms)} and {SOURCE}"
            faults.append((at, what, allowed, nearest(arm, [*arms, SOURCE]) or f"drop {arm}"))
        elif pair and not (isinstance(value, Mapping) and {*map(str, value)} == {*pair}):
            what = f"the claim goes from {pair[0]} to {pair[1]}, and {arm} has {value!r}"
            try_ = f"{arm}: {{{pair[0]}: 0.76, {pair[1]}: 0.73}}"
            faults.append((at, what, "a figure for both conditions", try_))
        elif pair:
            faults += [f for c, v in value.items() for f in _of_figure(v, (*at, c), unit)]
        else:
            faults += _of_figure(value, at, unit)
    missing = [arm for arm in arms if arm not in figures]
    if missing and (figures or source is None):
        what = f"published.{path[1]} has no figure of {' and '.join(missing)}"
        allowed = "figures of both arms, or a source alone"
        faults.append((path, what, allowed, f"{missing[0]}: 0.744"))
    return faults


def _of_figure(said: Any, path: tuple, unit: str | None) -> list[Fault]:
    value = _number(said)
    shown = ".".join(map(str, path))
    if unit != FRACTION:
        ok, allowed = value is not None, f"a number, or {READ_OFF} and a number read off a plot"
        return [] if ok else [(path, f"{shown} is {said!r}", allowed, f"{path[-1]}: 1.5")]
    if value is not None and 0 <= value <= 1:
        return []
    percent = _number(str(said).replace("%", "")) if not isinstance(said, bool) else None
    likely = percent / 100 if percent is not None and 1 < percent <= 100 else 0.744
    mark = READ_OFF if str(said).strip().startswith(READ_OFF) else ""
    allowed = f"a fraction from 0 to 1, with {READ_OFF} before it if read off a plot"
    return [(path, f"{shown} is {said!r}", allowed, f"{path[-1]}: {mark}{likely:.6g}")]


def _published(claim: Any, entry: Mapping) -> Published:
    said = {str(key): value for key, value in entry.items()}
    two = claim.kind == "interaction"
    figures = tuple(
        Figure(arm, condition, _number(value), str(value).strip().startswith(READ_OFF))
        for arm in (claim.b, claim.a)
        if arm in said
        for condition, value in (
            ((c, _of(said[arm], c)) for c in claim.conditions) if two else ((None, said[arm]),)
        )
    )
    values = [figure.value for figure in figures]
    difference = None
    if two and values:
        b_before, b_after, a_before, a_after = values
        difference = (b_after - b_before) - (a_after - a_before)
    elif values:
        difference = values[0] - values[1]
    return Published(claim.id, figures, difference, said.get(SOURCE))


def _of(by_condition: Mapping, condition: str) -> Any:
    return next(value for name, value in by_condition.items() if str(name) == condition)


def _number(said: Any) -> float | None:
    """A figure as a number, without its mark; None where it is none."""
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    try:
        value = float(said.strip().removeprefix(READ_OFF) if isinstance(said, str) else said)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
