"""Are two arms, conditions or claims of a study the same under different names?

Legitimate in an A/A study, which shows how large differences get by chance; else a slip of the pen.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping

from analysis.inputs.plan import read_plan
from contrastive.config import TrainConfig, settings
from study.design import search_space
from study.design.study import Study


def identical_lines(study: Study) -> Iterator[str]:
    """A line for each group of arms, conditions or claims that differ in nothing but their name.

    Args:
        study: checked.
    """
    arms = {arm: _of_arm(study, arm) for arm in study.arms}
    for group in _groups(arms):
        yield f"the arms {group} train alike under every condition: right for an A/A study only"
    conditions = {
        c: json.dumps([_effective(study, arm, c) for arm in study.arms]) for c in study.conditions
    }
    for group in _groups(conditions):
        yield f"the conditions {group} are the same for every arm"
    claims = {
        c.id: (c.asks, c.a, c.b, c.metric.text, c.conditions)
        for c in read_plan(study.declared()).claims
    }
    for group in _groups(claims):
        yield f"the claims {group} say the same; each of them makes all harder to support"


def _of_arm(study: Study, arm: str) -> str:
    space = {
        name: p.model_dump(mode="json") for name, p in search_space.arm_space(study, arm).items()
    }
    return json.dumps([space, [_effective(study, arm, c) for c in study.conditions]])


def _effective(study: Study, arm: str, condition: str) -> dict[str, object]:
    """The settings that a training starts from, without options that its loss does not take."""
    found = settings(TrainConfig(**study.fixed(arm, condition)))
    if "loss" in search_space.arm_space(study, arm):
        return found
    return {n: v for n, v in found.items() if not search_space.unused_by(found["loss"], n)}


def _groups(keys: Mapping[str, Hashable]) -> Iterator[str]:
    """Names with equal keys, "a, b and c"."""
    groups: dict[Hashable, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    for names in groups.values():
        if len(names) > 1:
            yield f"{', '.join(names[:-1])} and {names[-1]}"
