"""What would this study do, what could it show, and how long would it take?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from analysis.power import (
    minimum_detectable_effect,
    seeds_for,
    seeds_needed_for_family,
    smallest_p,
)
from contrastive.budget import batches, extent
from contrastive.config import TrainConfig
from contrastive.data import DataError
from contrastive.training import Diverged, dataset_of, train
from study import space as spaces
from study.alike import alike_lines
from study.length import epochs_of, timed
from study.progress import duration
from study.spec import EarlyStopping, Parameter, Study

_TIMED_BATCHES = 4


def plan_lines(
    study: Study, *, slots: int, pilot: Mapping[str, float] | None = None
) -> Iterator[str]:
    """The plan in plain lines: arms, budget, claims and what the seeds can show, time.

    Args:
        study: checked.
        slots: trainings at a time.
        pilot: standard deviations of an earlier study's paired differences, by claim.
    """
    yield f"study {study.name}: {study.question}" if study.question else f"study {study.name}"
    for line in alike_lines(study):
        yield f"note: {line}"
    yield from _budget_lines(study)
    yield from _search_lines(study)
    seeds, cells = study.confirm.seed_list, len(study.arms) * len(study.conditions)
    yield (
        f"confirmation: {len(study.arms)} arms × {len(study.conditions)} conditions × "
        f"{len(seeds)} seeds = {cells * len(seeds)} runs, seeds {_span(seeds)}"
    )
    for name, settings in study.conditions.items():
        yield f"  {name}: {_settings(settings) or 'as in trial'}"
    yield from _power_lines(study, pilot or {})
    yield from _time_lines(study, slots)


def _budget_lines(study: Study) -> Iterator[str]:
    """What one training may spend, where that is not a number of epochs."""
    budgets = {
        (arm, condition): budget
        for arm in study.arms
        for condition in study.conditions
        if (budget := TrainConfig(**study.fixed(arm, condition)).budget) and not budget.epochs
    }
    for budget in dict.fromkeys(budgets.values()):
        cells = [cell for cell, own in budgets.items() if own == budget]
        lengths = {arm: epochs_of(study, arm, condition) for arm, condition in reversed(cells)}
        told = ", ".join(f"{arm} {_span_of(lengths[arm])}" for arm in study.arms if arm in lengths)
        if budget.views:
            yield f"budget: {budget.views:,} views a training; epochs: {told}"
        else:
            yield f"budget: {duration(budget.seconds)} of training each; epochs: {told}"
            yield (
                "  note: a budget of seconds cannot be reproduced: how far a training gets depends "
                "on the machine and on what else runs there"
            )


def _span_of(length: tuple[int, int] | None) -> str:
    if length is None:
        return "not known"
    return f"{length[0]}" if length[0] == length[1] else f"{length[0]} to {length[1]}"


def _search_lines(study: Study) -> Iterator[str]:
    search = study.search
    if search is None:
        yield "search: none; the arms' settings are confirmed as they stand"
        for arm, settings in study.arms.items():
            yield f"  {arm}: {_settings(settings)}"
        return
    stopping, metrics = _stopping(search.pruned), ", ".join(search.metrics)
    yield (
        f"search: {len(study.arms)} arms × {search.trials_per_arm} trials on {metrics} "
        f"under {study.tuned_under}, seed {search.seed}, {stopping}"
    )
    if search.pruned:
        yield f"  {_rungs(study, search.pruned)}"
    for arm, settings in study.arms.items():
        space = spaces.arm_space(study, arm)
        drawn = ", ".join(f"{name} {_range(p)}" for name, p in space.items())
        yield f"  {arm}: {_settings(settings)}; searches {drawn or 'nothing'}"
    unused = set(search.space) - {n for arm in study.arms for n in spaces.arm_space(study, arm)}
    for name in sorted(unused):
        yield f"  note: {name} is searched for no arm: conditions or arms set it, or none uses it"


def _rungs(study: Study, rule: EarlyStopping) -> str:
    """Epochs after which trials may be stopped, which differ where the arms' lengths do."""
    told: dict[str, list[str]] = {}
    for arm in study.arms:
        length = epochs_of(study, arm, study.tuned_under)
        if length is None:
            continue
        rungs = rule.rungs(length[1])
        if rule.rule != "asha":
            text = f"each epoch from {rungs[0]}"
        else:
            text = f"epoch{'s' * (len(rungs) > 1)} {', '.join(map(str, rungs))}"
        most = "at most " * timed(study, study.tuned_under)
        told.setdefault(f"{text} of {most}{length[1]}", []).append(arm)
    if len(told) == 1:
        return f"may be stopped after {next(iter(told))}"
    return "may be stopped after " + "; ".join(f"{', '.join(a)}: {t}" for t, a in told.items())


def _power_lines(study: Study, pilot: Mapping[str, float]) -> Iterator[str]:
    n, m = len(study.confirm.seed_list), len(study.claims)
    if not m:
        yield "claims: none declared; whatever the report compares is exploratory"
        return
    needed = seeds_needed_for_family(m, study.alpha)
    yield (
        f"claims: {m}, α = {study.alpha:g} by Holm; smallest p that {n} seeds can reach: "
        f"{smallest_p(n):.2g}"
    )
    if n < needed:
        yield (
            f"  WARNING: {m} claims need at least {needed} seeds; with {n} none can be decided"
            f"  (try: --set confirm.seeds={needed})"
        )
    effect = minimum_detectable_effect(n, m, study.alpha)
    if effect is None:
        return
    for claim in study.claims:
        sd = pilot.get(str(claim["id"]), study.pilot_sd)
        yield f"  {claim['id']}: {_detectable(study, effect, sd, m)}"


def _detectable(study: Study, effect: float, sd: float | None, m: int) -> str:
    """What a claim's seeds can show with 80 % power, and what the margin would take."""
    if sd is None:
        return (
            f"can show {effect:.2f} standard deviations of the paired differences with 80 % power "
            "(pilot_sd, or --pilot STUDY, puts it into the metric's unit)"
        )
    text = f"can show a difference of {effect * sd:.4f} with 80 % power (pilot sd {sd:.4f})"
    if study.margin is None:
        return text
    seeds = seeds_for(study.margin / sd, m, study.alpha)
    wanted = f"{seeds} seeds" if seeds else "more seeds than can be had"
    return f"{text}; one of {study.margin:g}, the margin, would take {wanted}"


def pilot_sds(report: Path) -> dict[str, float]:
    """Standard deviations of the paired differences in an earlier report, by claim.

    Args:
        report: a `report.json`; none gives none.
    """
    if not report.exists():
        return {}
    found = {}
    for comparison in json.loads(report.read_text())["comparisons"]:
        dz, mean = comparison["dz"], comparison["mean_difference"]
        if comparison.get("claim") and dz and mean:
            found[str(comparison["claim"])] = abs(mean / dz)
    return found


def _time_lines(study: Study, slots: int) -> Iterator[str]:
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


def _stopping(rule: EarlyStopping | None) -> str:
    if rule is None:
        return "no early stopping"
    if rule.rule != "asha":
        return f"stopped early by the {rule.rule} rule"
    return f"successive halving by {rule.reduction_factor}"


def _range(parameter: Parameter) -> str:
    if parameter.choices is not None:
        return "{" + ", ".join(str(c) for c in parameter.choices) + "}"
    return f"[{parameter.low:g}, {parameter.high:g}]{' log' * parameter.log}"


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _span(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)
