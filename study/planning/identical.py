"""Arms, conditions or claims of a study that are the same under different names.

Legitimate in an A/A study, which shows how large differences get by chance; else a slip of the pen.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from analysis.inputs.plan import read_plan
from study.design import Study, arms_of


def identical_lines(study: Study) -> Iterator[str]:
    """A line for each group of arms, conditions or claims that differ in nothing but their name.

    Args:
        study: checked.
    """
    arms = arms_of(study)
    for group in _groups({name: arm.sameness for name, arm in arms.items()}):
        yield (
            f"the arms {group} train alike under every condition: right for an A/A study only; "
            "each draws its own trials and training seeds"
        )
    conditions = {c: repr([arm.effective(c) for arm in arms.values()]) for c in study.conditions}
    for group in _groups(conditions):
        yield f"the conditions {group} are the same for every arm"
    claims = {
        c.id: (c.asks, c.a, c.b, c.metric.text, c.conditions)
        for c in read_plan(study.declared()).claims
    }
    for group in _groups(claims):
        yield f"the claims {group} say the same; each of them makes all harder to support"


def _groups(keys: Mapping[str, Hashable]) -> Iterator[str]:
    """Names with equal keys, "a, b and c"."""
    groups: dict[Hashable, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    for names in groups.values():
        if len(names) > 1:
            yield f"{', '.join(names[:-1])} and {names[-1]}"
