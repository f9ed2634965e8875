"""The time that a study would take, estimated from a few timed batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from contrastive.config import TrainConfig
from contrastive.data import DataError
from contrastive.training.length import batches, extent
from contrastive.training.loop import Diverged, dataset_of, train
from study.design.length import epochs_of
from study.design.study import EarlyStopping, Study
from study.tracking.progress import duration

_TIMED_BATCHES = 4


def time_lines(study: Study, slots: int) -> Iterator[str]:
    try:
        seconds = _total_seconds(study)
    except (Diverged, DataError) as reason:
        yield f"time: not known; a few batches could not be timed ({str(reason).split(';')[0]})"
        return
    yield (
        f"time: about {duration(seconds / slots)} of training with {slots} at a time, by a few "
        "batches timed just now; starting up takes half a minute more"
    )


def _total_seconds(study: Study) -> float:
    """Device-seconds of all trainings."""
    seconds = sum(
        _seconds(study, arm, condition, len(study.confirm.seed_list))
        for arm in study.arms
        for condition in study.conditions
    )
    for arm in study.arms if study.search else ():
        length = epochs_of(study, arm, study.tuned_under)
        epochs = length[1] if length else 1
        trials = study.search.trials_per_arm * _share_trained(study.search.pruned, epochs)
        seconds += _seconds(study, arm, study.tuned_under, trials)
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


def _seconds(study: Study, arm: str, condition: str, runs: float) -> float:
    """Device-seconds of `runs` trainings, from a few timed batches of this configuration."""
    config = TrainConfig(**study.fixed(arm, condition))
    data = dataset_of(config)
    length = extent(config, len(data.train))
    few = min(length.steps, _TIMED_BATCHES)
    per_batch, per_image = _measured(replace(config, train_limit=few * config.batch_size))
    training = length.all_steps * per_batch
    if config.budget is not None and config.budget.seconds is not None:
        training = min(training, config.budget.seconds)
    epochs = training / (length.steps * per_batch)
    evaluated = len(data.train) + len(data.val)
    return runs * (training + epochs // config.eval_every * evaluated * per_image)


@cache
def _measured(config: TrainConfig) -> tuple[float, float]:
    """Seconds of a training batch, and of an image in an evaluation."""
    # Epoch 1 warms up, epoch 2 only trains, epoch 3 trains and evaluates.
    timed = replace(config, epochs=3, budget=None, eval_every=4)
    data = dataset_of(timed)
    seconds = [record.metrics["seconds"] for record in train(timed, 0, read_test=False)]
    training = seconds[2] - seconds[1]
    evaluation = max(0.0, seconds[3] - seconds[2] - training)
    images = len(data.train) + len(data.val)
    return training / batches(timed, len(data.train)), evaluation / images
