"""The checks of a plan's claims and of its `metrics:`, all faults together.

`study` turns the faults into `file:line` messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.errors import nearest
from analysis.inputs.metric import DIRECTIONS, WINDOW_FORM, Metrics, parse_metric
from analysis.inputs.plain_yaml import control_character

DEFAULT_CONDITION = "default"
Fault = tuple[tuple, str, str, str]
KINDS = ("better", "less_hurt", "equivalent")
KEYS = {
    "better": ("id", "better", "than", "metric", "under"),
    "less_hurt": ("id", "less_hurt", "than", "metric", "from", "to"),
    "equivalent": ("id", "equivalent", "to", "metric", "under"),
}
LONGEST_ID = 80  # characters, as of an arm's name
LONGEST_UNIT = 20  # characters; it follows numbers in tables
_EXAMPLE = "{id: F1, better: ARM, than: ARM, metric: METRIC}"


def check_claims(plan: Mapping, *, better: str | Mapping[str, str] | None = None) -> list[Fault]:
    """Faults of the claims and metrics: (path, what is wrong, what is allowed, what to try).

    Finds unknown kinds and keys, arms, conditions and metrics that do not exist, malformed or
    impossible windows, an arm against itself, ids given twice, and metrics of claims and of the
    search whose better direction is not known.

    Args:
        plan: a study's YAML as a mapping.
        better: directions of metrics given beside the plan (`analysis.inputs.metric.Metrics`).

    Example:
        >>> check_claims({"arms": {"a": {}, "b": {}}, "claims": [{"better": "c", "than": "a"}]})[0]
        (('claims', 0), 'the claim has no id', 'id, better, than, metric, under', 'add id: …')
    """
    faults = metrics_faults(plan.get("metrics"))
    known = None if faults else Metrics(plan.get("metrics"), better)
    claims = plan.get("claims")
    if claims is not None and not isinstance(claims, list | tuple):
        what = f"claims is {claims!r}"
        return [*faults, (("claims",), what, "a list of claims", f"- {_EXAMPLE}")]
    seen: dict[str, int] = {}
    for index, claim in enumerate(claims or ()):
        path = ("claims", index)
        if not isinstance(claim, Mapping):
            faults.append((path, f"the claim is {claim!r}", "a mapping", _EXAMPLE))
            continue
        kinds = [kind for kind in KINDS if kind in claim]
        if len(kinds) != 1:
            what = f"the claim is of {len(kinds)} kinds" if kinds else "the claim has no kind"
            near = next((n for key in claim if (n := nearest(key, KINDS))), None)
            try_ = f"{near}: ARM" if near else "better: ARM, than: ARM"
            faults.append((path, what, "one of " + ", ".join(KINDS), try_))
            continue
        faults += _of_claim(plan, claim, kinds[0], path, known)
        faults += _of_id(claim.get("id"), (*path, "id")) if "id" in claim else []
        name = str(claim.get("id", ""))
        if name and name in seen:
            what = f"id {name} is claim {seen[name] + 1}'s already"
            faults.append(((*path, "id"), what, "ids that differ", f"id: {name}b"))
        seen.setdefault(name, index)
    return faults + list(_of_search(plan.get("search"), known))


def _of_id(said: Any, path: tuple) -> Iterator[Fault]:
    """An id that cannot stand in a table, on a terminal and behind `--require`."""
    number = isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said)
    text = str(said).strip() if isinstance(said, str) else str(said) if number else ""
    if not text or len(text) > LONGEST_ID or control_character(text):
        shown = ascii(said)
        what = f"id is {shown if len(shown) <= 60 else shown[:57] + '...'}"
        allowed = f"a text of 1 to {LONGEST_ID} characters on one line, or a number"
        yield path, what, allowed, f"id: F{path[1] + 1}"


def metrics_faults(metrics: Any) -> list[Fault]:
    """Faults of `metrics:`, name -> {better, unit, kind}."""
    return list(_of_metrics(metrics))


def _of_metrics(metrics: Any) -> Iterator[Fault]:
    example = "test/rmse: {better: lower}"
    if metrics is not None and not isinstance(metrics, Mapping):
        yield ("metrics",), f"metrics is {metrics!r}", "a mapping of names", example
        return
    for name, said in (metrics or {}).items():
        path, keys = ("metrics", name), ("better", "unit", "kind")
        if not str(name).strip() or control_character(str(name)):
            yield path, f"metric {name!a} has no name", "a name that can be shown", example
        if not isinstance(said, Mapping):
            yield path, f"metric {name} is {said!r}", "a mapping", "{better: lower}"
            continue
        for key in said:
            if key not in keys:
                try_ = nearest(key, keys) or f"drop {key}"
                yield (*path, key), f"unknown key {key}", ", ".join(keys), try_
        if "better" not in said:
            yield path, f"metric {name} has no better", " or ".join(DIRECTIONS), "better: lower"
        elif said["better"] not in DIRECTIONS:
            near = nearest(said["better"], DIRECTIONS) or "lower"
            what = f"better is {said['better']!r}"
            yield (*path, "better"), what, " or ".join(DIRECTIONS), f"better: {near}"
        unit = said.get("unit")
        if unit is not None and not (isinstance(unit, str) and 0 < len(unit) <= LONGEST_UNIT):
            allowed = f"fraction, or a text of at most {LONGEST_UNIT} characters"
            yield (*path, "unit"), f"unit is {unit!r}", allowed, "unit: fraction"


def _of_claim(
    plan: Mapping, claim: Mapping, kind: str, path: tuple, known: Metrics | None
) -> Iterator[Fault]:
    keys = KEYS[kind]
    for key in claim:
        if key not in keys:
            try_ = nearest(key, keys) or f"drop {key}"
            yield (*path, key), f"unknown key {key}", ", ".join(keys), try_
    for key in keys:
        if key != "under" and key not in claim:
            yield path, f"the claim has no {key}", ", ".join(keys), f"add {key}: …"

    arms, other = arm_names(plan), keys[2]
    for key in (kind, other):
        if key in claim and arms and str(claim[key]) not in arms:
            yield _unknown((*path, key), "arm", claim[key], arms)
    if kind in claim and other in claim and claim[kind] == claim[other]:
        what = f"{claim[kind]} is compared with itself"
        yield (*path, other), what, "two different arms", _other(arms, claim[kind])

    conditions = condition_names(plan)
    for key in ("from", "to") if kind == "less_hurt" else ("under",):
        if key in claim and str(claim[key]) not in conditions:
            yield _unknown((*path, key), "condition", claim[key], conditions)
    if kind == "less_hurt" and "from" in claim and claim.get("from") == claim.get("to"):
        what, try_ = "from and to are the same condition", _other(conditions, claim["from"])
        yield (*path, "to"), what, "two different conditions", try_
    if kind == "equivalent" and plan.get("margin") is None:
        yield path, "equivalence needs a margin", "margin: a number > 0", "margin: 0.005"
    elif kind == "equivalent" and known and known.is_cost(str(claim.get("metric"))):
        what = f"equivalence needs a margin, which is one of scores: {claim['metric']} is a cost"
        yield path, what, "a metric that is no cost", "better: ARM, than: ARM"
    if "metric" in claim:
        yield from _of_claimed_metric(plan, claim["metric"], (*path, "metric"), known)


def _of_claimed_metric(
    plan: Mapping, text: Any, path: tuple, known: Metrics | None
) -> Iterator[Fault]:
    metrics = [str(m) for m in (plan.get("confirm") or {}).get("metrics") or ()]
    allowed = ", ".join([*metrics, WINDOW_FORM])
    metric = parse_metric(text)
    if metric is None:
        shown = repr(text) if len(str(text)) <= 60 else repr(str(text)[:57] + "...")
        yield path, f"{shown} is not a metric", allowed, "auc(val/knn_top1, epochs 1-4)"
        return
    cost = known is not None and known.is_cost(metric.base)
    if cost and metric.window:
        what = f"{metric.base} is a cost, and has no window: what a run spent in all is compared"
        yield path, what, metric.base, f"metric: {metric.base}"
        return
    if metric.window is None and metrics and metric.text not in metrics and not cost:
        what = f"{metric.text} is not among confirm.metrics"
        yield path, what, allowed, nearest(metric.text, metrics) or metrics[0]
        return
    epochs = _most_epochs(plan)
    if metric.window and epochs is not None and metric.window[1] > epochs:
        what = f"epoch {metric.window[1]} is after the last of any training ({epochs})"
        first = min(metric.window[0], epochs)
        yield (
            path,
            what,
            f"epochs within 0-{epochs}",
            f"auc({metric.base}, epochs {first}-{epochs})",
        )
    yield from _of_direction(metric.base, path, known)


def _of_search(search: Any, known: Metrics | None) -> Iterator[Fault]:
    metric = search.get("metric") if isinstance(search, Mapping) else None
    for one in metric if isinstance(metric, list) else [metric] if metric else []:
        yield from _of_direction(str(one), ("search", "metric"), known)


def _of_direction(metric: str, path: tuple, known: Metrics | None) -> Iterator[Fault]:
    if known is not None and known.direction(metric) is None:
        yield (
            path,
            f"it is not known whether higher or lower is better for {metric}",
            "a metric under `metrics:`, or one whose name implies it, such as accuracy or loss",
            f"metrics: {{{metric}: {{better: higher}}}}, or lower",
        )


def _most_epochs(plan: Mapping) -> int | None:
    """The most epochs that a training of the plan has, as written; None if `trial` has none.

    Arms and conditions may set their own. Which of them a claim is about is checked by
    `study.spec.study_checks`.
    """
    rooms = [plan.get("trial")]
    for name in ("arms", "conditions"):
        room = plan.get(name)
        rooms += room.values() if isinstance(room, Mapping) else ()
    epochs = [room.get("epochs") if isinstance(room, Mapping) else None for room in rooms]
    written = [e for e in epochs if isinstance(e, int)]
    return max(written) if isinstance(epochs[0], int) else None


def arm_names(plan: Mapping) -> tuple[str, ...]:
    arms = plan.get("arms") or {}
    # A grid that is not crossed yet has no arm names; `study` crosses it first.
    return () if "grid" in arms else tuple(str(arm) for arm in arms)


def condition_names(plan: Mapping) -> tuple[str, ...]:
    conditions = plan.get("conditions") or {}
    return tuple(str(name) for name in conditions) or (DEFAULT_CONDITION,)


def _unknown(path: tuple, what: str, name: Any, known) -> Fault:
    try_ = f"{path[-1]}: {nearest(name, known) or known[0]}"
    return path, f"no {what} is called {name}", ", ".join(known), try_


def _other(names, name) -> str:
    return next((other for other in names if other != name), "another name")
