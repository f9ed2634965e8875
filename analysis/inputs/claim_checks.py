"""Which of a plan's claims cannot be answered as they are written?

All faults are found together; `study` turns them into `file:line` messages.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from analysis.inputs.metric import WINDOW_FORM, parse_metric

DEFAULT_CONDITION = "default"
Fault = tuple[tuple, str, str, str]
KINDS = ("better", "less_hurt", "equivalent")
KEYS = {
    "better": ("id", "better", "than", "metric", "under"),
    "less_hurt": ("id", "less_hurt", "than", "metric", "from", "to"),
    "equivalent": ("id", "equivalent", "to", "metric", "under"),
}


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
    arms = arm_names(plan)
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
    conditions = condition_names(plan)
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
    epochs = _most_epochs(plan)
    if epochs is not None and metric.window[1] > epochs:
        first = min(metric.window[0], epochs)
        return [
            (
                path,
                f"epoch {metric.window[1]} is after the last of any training ({epochs})",
                f"epochs within 0-{epochs}",
                f"auc({metric.base}, epochs {first}-{epochs})",
            )
        ]
    return []


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
    # A grid that is not crossed yet names no arms; `study` crosses it before it asks.
    return () if "grid" in arms else tuple(str(arm) for arm in arms)


def condition_names(plan: Mapping) -> tuple[str, ...]:
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
