"""The time that a study would take, estimated by its workload."""

from __future__ import annotations

from collections.abc import Iterator

from study.design import EarlyStopping, Study, arms_of
from study.errors import first_line
from study.tracking import duration


def time_lines(study: Study, slots: int) -> Iterator[str]:
    """How long all trainings would take, or why that is not known.

    Args:
        study: checked.
        slots: trainings at a time.
    """
    try:
        seconds = _total_seconds(study)
    except ValueError as reason:
        text = first_line(reason).split(";")[0]
        yield f"time: not known; a few batches could not be timed ({text})"
        return
    yield (
        f"time: about {duration(seconds / slots)} of training with {slots} at a time, by a few "
        "batches timed just now; starting up takes half a minute more"
    )


def _total_seconds(study: Study) -> float:
    """Device-seconds of all trainings."""
    seconds, seeds = 0.0, len(study.all_seeds)
    for arm in arms_of(study).values():
        for condition in study.conditions:
            seconds += seeds * study.trains.seconds(arm.settings[condition])
        if study.search:
            length = arm.length(study.tuned_under)
            share = _share_trained(study.search.pruned, length[1] if length else 1)
            trials = study.search.replicates * study.search.trials_per_arm * share
            seconds += trials * study.trains.seconds(arm.fixed)
    return seconds


def _share_trained(rule: EarlyStopping | None, epochs: int) -> float:
    """The share of its epochs that an average trial runs, if each rung keeps 1/η."""
    if rule is None or rule.rule != "asha":
        return 1.0  # at most
    share, alive, before = 0.0, 1.0, 0
    for rung in [*rule.rungs(epochs), epochs]:
        share += alive * (rung - before) / epochs
        alive, before = alive / rule.reduction_factor, rung
    return share
