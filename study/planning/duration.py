"""The time that a study would take, estimated by its workload or from an earlier study."""

from __future__ import annotations

from study.design import EarlyStopping, Study, arms_of
from study.errors import first_line
from study.tracking import duration


def time_line(
    study: Study, slots: int | None, trial_s: float | None, run_s: float | None, *, measure: bool
) -> str:
    """How long all trainings would take, from a few batches timed now, or from an earlier study.

    Args:
        study: checked.
        slots: trainings at a time; None where only a cluster knows.
        trial_s, run_s: mean device-seconds of a trial and of a confirmation run of the earlier one.
        measure: time batches, which brings PyTorch into this process.
    """
    seconds = how = None
    unknown = "shown with the progress once trainings have ended; --dry-run estimates it before"
    if measure:
        try:
            seconds, how = _measured(study), "by a few batches timed just now"
        except ValueError as reason:
            text = first_line(reason).split(";")[0]
            unknown = f"not known; a few batches could not be timed ({text})"
    if seconds is None and run_s is not None and (study.search is None or trial_s is not None):
        seconds = _total(study, trial_s or 0.0, run_s)
        how = "if trainings take as long as in the earlier study"
    if seconds is None or slots is None:
        return f"time: {unknown}"
    return (
        f"time: about {duration(seconds / slots)} of training with {slots} at a time, {how}; "
        "starting up takes half a minute more"
    )


def _total(study: Study, trial_s: float, run_s: float) -> float:
    """Device-seconds of all trainings, if all trials take the same and all runs."""
    arms = len(study.arms)
    runs = arms * len(study.conditions) * len(study.all_seeds)
    per_arm = study.search.replicates * study.search.trials_per_arm if study.search else 0
    return arms * per_arm * trial_s + runs * run_s


def _measured(study: Study) -> float:
    """Device-seconds of all trainings."""
    seconds, seeds = 0.0, len(study.all_seeds)
    for arm in arms_of(study).values():
        for condition in study.conditions:
            seconds += seeds * study.trains.seconds(arm.settings[condition])
        if study.search:
            length = arm.length(study.tuned_under)
            share = share_trained(study.search.pruned, length[1] if length else 1)
            trials = study.search.replicates * study.search.trials_per_arm * share
            seconds += trials * study.trains.seconds(arm.fixed)
    return seconds


def share_trained(rule: EarlyStopping | None, epochs: int) -> float:
    """The share of its epochs that an average trial runs, if each rung keeps 1/η."""
    if rule is None or rule.rule != "asha":
        return 1.0  # at most
    share, alive, before = 0.0, 1.0, 0
    for rung in [*rule.rungs(epochs), epochs]:
        share += alive * (rung - before) / epochs
        alive, before = alive / rule.reduction_factor, rung
    return share
