"""What was declared before the data were seen?

A plan is the part of a study's YAML that the statistics need: arms, conditions, seeds, metrics,
claims, margin, alpha. Claims are checked here and nowhere else; `study` turns the faults into
`file:line` messages.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from analysis.table import DEFAULT_CONDITION, TableError

Fault = tuple[tuple, str, str, str]

KINDS = ("better", "less_hurt", "equivalent")
KEYS = {
    "better": ("id", "better", "than", "metric", "under"),
    "less_hurt": ("id", "less_hurt", "than", "metric", "from", "to"),
    "equivalent": ("id", "equivalent", "to", "metric", "under"),
}
WINDOW = re.compile(
    r"auc\(\s*(?P<metric>[^,()\s]+)\s*,\s*epochs\s+(?P<first>\d+)-(?P<last>\d+)\s*\)"
)
WINDOW_FORM = "auc(METRIC, epochs A-B), such as auc(val/knn_top1, epochs 1-4)"


@dataclass(frozen=True)
class Metric:
    """A metric of a claim: a final figure, or the mean over epochs first..last of a curve."""

    text: str
    base: str
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class Claim:
    """One declared contrast: of arm `b` against arm `a`, differences are b - a.

    `kind` is difference, interaction or curve; `asks` is better, less_hurt or equivalent;
    `conditions` holds one condition, or (from, to) for an interaction.
    """

    id: str
    asks: str
    kind: str
    a: str
    b: str
    metric: Metric
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The design record. `declared` is False where there was no plan at all."""

    name: str | None = None
    question: str | None = None
    arms: tuple[str, ...] = ()
    arm_settings: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    seeds: tuple = ()
    planned_n: int | None = None
    metrics: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    margin: float | None = None
    alpha: float = 0.05
    chance: float | None = None
    pilot_sd: float | None = None
    hash: str | None = None
    looks_planned: int = 1
    search_condition: str | None = None
    search_metric: str | None = None
    declared: bool = False
    overridden: tuple[str, ...] = ()


def parse_metric(text: str) -> Metric | None:
    """A metric name or an `auc(...)` window; None where the text is a malformed window."""
    text = str(text).strip()
    if match := WINDOW.fullmatch(text):
        first, last = int(match["first"]), int(match["last"])
        return Metric(text, match["metric"], (first, last)) if first <= last else None
    return None if "(" in text or ")" in text or not text else Metric(text, text)


def read_plan(source: str | Path | Mapping | None, **overrides: float | None) -> Plan:
    """The plan in a study's YAML or mapping; overrides of alpha and margin are noted as such.

    Raises:
        TableError: the file is missing, is no YAML mapping, or its claims are faulty.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    where = str(source) if isinstance(source, str | Path) else "plan"
    mapping = _load(source)
    if mapping is None:
        return Plan(**_checked(given, "arguments"))
    faults = check_claims(mapping)
    if faults:
        lines = [
            f"{'.'.join(map(str, path))}: {what} (allowed: {allowed}; try: {try_})"
            for path, what, allowed, try_ in faults
        ]
        raise TableError(
            "the plan's claims are faulty\n    " + "\n    ".join(lines),
            where=where,
            allowed="claims as in docs/statistics.md",
            try_="correct the lines above",
        )
    declared = _checked(
        {k: mapping[k] for k in ("alpha", "margin", "chance") if mapping.get(k) is not None}, where
    )
    given = _checked(given, "arguments")
    changed = tuple(
        key
        for key in ("alpha", "margin")
        if key in given and given[key] != declared.get(key, 0.05 if key == "alpha" else None)
    )
    confirm = mapping.get("confirm") or {}
    seeds = confirm.get("seeds")
    looks = mapping.get("looks", 1)
    search = mapping.get("search") or {}
    conditions = _condition_names(mapping)
    return Plan(
        name=mapping.get("name"),
        question=mapping.get("question"),
        arms=_arm_names(mapping),
        arm_settings=mapping.get("arms") or {},
        conditions=conditions,
        seeds=tuple(seeds) if isinstance(seeds, list | tuple) else (),
        planned_n=len(seeds) if isinstance(seeds, list | tuple) else seeds,
        metrics=tuple(confirm.get("metrics") or ()),
        claims=tuple(_claim(c, i, conditions) for i, c in enumerate(mapping.get("claims") or ())),
        pilot_sd=mapping.get("pilot_sd"),
        hash=mapping.get("hash"),
        looks_planned=looks if isinstance(looks, int) and looks > 0 else 1,
        search_condition=search.get("under") or conditions[0],
        search_metric=search.get("metric"),
        declared=True,
        overridden=changed,
        **{**declared, **given},
    )


def check_claims(plan: Mapping) -> list[Fault]:
    """Faults of the claims: (path, what is wrong, what is allowed, what to try), all together.

    Finds unknown kinds and keys, arms, conditions and metrics that do not exist, malformed or
    impossible windows, an arm against itself, and ids given twice.
    """
    faults: list[Fault] = []
    claims = plan.get("claims")
    if claims is not None and not isinstance(claims, list | tuple):
        return [
            (
                ("claims",),
                f"claims is {claims!r}",
                "a list of claims",
                "- {id: F1, better: ARM, than: ARM, metric: METRIC}",
            )
        ]
    seen: dict[str, int] = {}
    for index, claim in enumerate(claims or ()):
        path = ("claims", index)
        if not isinstance(claim, Mapping):
            faults.append(
                (
                    path,
                    f"the claim is {claim!r}",
                    "a mapping",
                    "{id: F1, better: ARM, than: ARM, metric: METRIC}",
                )
            )
            continue
        kinds = [kind for kind in KINDS if kind in claim]
        if len(kinds) != 1:
            known = [near for key in claim if (near := _near(key, KINDS))]
            what = f"the claim is of {len(kinds)} kinds" if kinds else "the claim says nothing"
            faults.append(
                (
                    path,
                    what,
                    "one of " + ", ".join(KINDS),
                    f"{known[0]}: ARM" if known else "better: ARM, than: ARM",
                )
            )
            continue
        faults += _check_one(plan, claim, kinds[0], path)
        name = str(claim.get("id", ""))
        if name and name in seen:
            faults.append(
                (
                    (*path, "id"),
                    f"id {name} is claim {seen[name] + 1}'s already",
                    "ids that differ",
                    f"id: {name}b",
                )
            )
        seen.setdefault(name, index)
    return faults


def _check_one(plan: Mapping, claim: Mapping, kind: str, path: tuple) -> list[Fault]:
    faults: list[Fault] = []
    allowed = KEYS[kind]
    for key in claim:
        if key not in allowed:
            faults.append(
                (
                    (*path, key),
                    f"unknown key {key}",
                    ", ".join(allowed),
                    _near(key, allowed) or f"drop {key}",
                )
            )
    needed = [key for key in allowed if key != "under"]
    for key in needed:
        if key not in claim:
            faults.append((path, f"the claim has no {key}", ", ".join(allowed), f"add {key}: …"))
    arms = _arm_names(plan)
    other = "to" if kind == "equivalent" else "than"
    for key in (kind, other):
        if key in claim and arms and str(claim[key]) not in arms:
            faults.append(_unknown((*path, key), "arm", claim[key], arms))
    if kind in claim and other in claim and claim[kind] == claim[other]:
        faults.append(
            (
                (*path, other),
                f"{claim[kind]} is compared with itself",
                "two different arms",
                _other(arms, claim[kind]),
            )
        )
    conditions = _condition_names(plan)
    for key in ("from", "to") if kind == "less_hurt" else ("under",):
        if key in claim and str(claim[key]) not in conditions:
            faults.append(_unknown((*path, key), "condition", claim[key], conditions))
    if kind == "less_hurt" and "from" in claim and claim.get("from") == claim.get("to"):
        faults.append(
            (
                (*path, "to"),
                "from and to are the same condition",
                "two different conditions",
                _other(conditions, claim["from"]),
            )
        )
    if kind == "equivalent" and plan.get("margin") is None:
        faults.append((path, "equivalence needs a margin", "margin: a number > 0", "margin: 0.005"))
    if "metric" in claim:
        faults += _check_metric(plan, claim["metric"], (*path, "metric"))
    return faults


def _check_metric(plan: Mapping, text: Any, path: tuple) -> list[Fault]:
    confirm = plan.get("confirm") or {}
    metrics = [str(m) for m in confirm.get("metrics") or ()]
    allowed = ", ".join([*metrics, WINDOW_FORM])
    metric = parse_metric(text)
    if metric is None:
        return [(path, f"{text!r} is no metric", allowed, "auc(val/knn_top1, epochs 1-4)")]
    if metric.window is None:
        if metrics and metric.text not in metrics:
            return [
                (
                    path,
                    f"{metric.text} is not among confirm.metrics",
                    allowed,
                    _near(metric.text, metrics) or metrics[0],
                )
            ]
        return []
    if metric.base.startswith("test/"):
        return [
            (
                path,
                f"{metric.base} is read once per run and has no curve",
                "a metric with a value per epoch, such as val/knn_top1",
                metric.text.replace("test/", "val/"),
            )
        ]
    trial = plan.get("trial") if isinstance(plan.get("trial"), Mapping) else {}
    epochs = trial.get("epochs")
    if isinstance(epochs, int) and metric.window[1] > epochs:
        first = min(metric.window[0], epochs)
        return [
            (
                path,
                f"epoch {metric.window[1]} is after the last of trial.epochs ({epochs})",
                f"epochs within 0-{epochs}",
                f"auc({metric.base}, epochs {first}-{epochs})",
            )
        ]
    return []


def _load(source: str | Path | Mapping | None) -> Mapping | None:
    if source is None or isinstance(source, Mapping):
        return source
    path = Path(source)
    try:
        mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise TableError(
            "the plan is not there",
            where=str(path),
            allowed="a study's YAML file",
            try_="check the path, or leave --plan out",
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise TableError(
            f"the plan does not parse ({getattr(error, 'problem', error)})",
            where=f"{path}{line}",
            allowed="YAML",
            try_="check indentation, colons and quotes there",
        ) from None
    if not isinstance(mapping, Mapping):
        raise TableError(
            "the plan is no mapping",
            where=str(path),
            allowed="keys such as claims",
            try_="pass the study.yaml of the study",
        ) from None
    return mapping


def _checked(given: dict[str, Any], where: str) -> dict[str, float]:
    limits = {
        "alpha": "a number between 0 and 1, such as 0.05",
        "margin": "a number > 0 in the metric's unit, such as 0.005",
        "chance": "a number: the score of guessing, such as 0.1 for ten classes",
    }
    for key, value in given.items():
        good = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and (value == value and abs(value) < float("inf"))
        )
        if good and key == "alpha":
            good = 0 < value < 1
        if good and key == "margin":
            good = value > 0
        if not good:
            raise TableError(
                f"{key} is {value!r}",
                where=where,
                allowed=limits[key],
                try_="correct it, or leave it out",
            )
    return given


def _claim(claim: Mapping, index: int, conditions: tuple[str, ...]) -> Claim:
    asks = next(kind for kind in KINDS if kind in claim)
    metric = parse_metric(claim["metric"])
    kind = "interaction" if asks == "less_hurt" else "curve" if metric.window else "difference"
    where = (
        (str(claim["from"]), str(claim["to"]))
        if asks == "less_hurt"
        else (str(claim.get("under", conditions[0])),)
    )
    a = claim["to"] if asks == "equivalent" else claim["than"]
    name = str(claim.get("id", index + 1))
    return Claim(name, asks, kind, str(a), str(claim[asks]), metric, where)


def _arm_names(plan: Mapping) -> tuple[str, ...]:
    arms = plan.get("arms") or {}
    # A grid that is not crossed yet names no arms; `study` crosses it before it asks.
    return () if "grid" in arms else tuple(str(arm) for arm in arms)


def _condition_names(plan: Mapping) -> tuple[str, ...]:
    conditions = plan.get("conditions") or {}
    return tuple(str(name) for name in conditions) or (DEFAULT_CONDITION,)


def _near(name: Any, known) -> str | None:
    near = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    return near[0] if near else None


def _unknown(path: tuple, what: str, name: Any, known) -> Fault:
    return (
        path,
        f"no {what} is called {name}",
        ", ".join(known),
        f"{path[-1]}: {_near(name, known) or known[0]}",
    )


def _other(names, name) -> str:
    return next((other for other in names if other != name), "another name")
