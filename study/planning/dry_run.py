"""The dry run: what a study would do, what it could show, and how long it would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.inputs import parse_metric, selected_on
from analysis.statistics.looks import expected_units
from analysis.statistics.power import minimum_detectable_effect
from analysis.wording import selection_note
from study.design import EarlyStopping, Parameter, Study, arms_of, epochs_on_test, timed
from study.planning.budget import cost_line
from study.planning.duration import time_line
from study.planning.identical import identical_lines
from study.planning.power import Pilot, power_lines
from study.tracking import duration

# Looks are simulated with so many studies: it takes a second up to 16 units, and doubles beyond.
_STUDIES, _MOST_SIMULATED = 100, 16


def plan_lines(study: Study, *, slots: int, pilot: Pilot | None = None) -> Iterator[str]:
    """The plan in plain lines: arms, budget, claims and what the seeds can show, cost and time.

    Args:
        study: checked.
        slots: trainings at a time.
        pilot: an earlier study.
    """
    pilot = pilot or Pilot()
    yield f"study {study.name}: {study.question}" if study.question else f"study {study.name}"
    for line in identical_lines(study):
        yield f"note: {line}"
    yield from _budget_lines(study)
    yield from _search_lines(study)
    yield _confirmation_line(study)
    for name, settings in study.conditions.items():
        yield f"  {name}: {_settings(settings) or 'as in trial'}"
    yield from power_lines(study, pilot)
    yield from _looks_lines(study)
    yield from _split_lines(study)
    if study.confirm.keep:
        yield f"note: each run of the confirmation keeps: {', '.join(study.confirm.keep)}"
    yield cost_line(study)
    yield time_line(study, slots, pilot.trial_s, pilot.run_s, measure=True)


def start_lines(study: Study, *, slots: int | None, pilot: Pilot) -> Iterator[str]:
    """What a study tells before it spends anything: what it can show, what it costs.

    Nothing is timed: that would bring PyTorch into the driver.

    Args:
        study: checked.
        slots: trainings at a time; None where only a cluster knows.
        pilot: an earlier study.
    """
    yield from power_lines(study, pilot)
    yield cost_line(study)
    yield time_line(study, slots, pilot.trial_s, pilot.run_s, measure=False)


def _looks_lines(study: Study) -> Iterator[str]:
    """What looks save, and what is possible beyond the last one."""
    looks, claims = study.confirm.looks, len(study.claims)
    if not looks or not claims:
        return
    listed = ", ".join(map(str, looks))
    text = f"looks: after {listed} replicates; the study ends where all claims are decided"
    effect = minimum_detectable_effect(looks[-1], claims, study.alpha)
    if effect is not None and looks[-1] <= _MOST_SIMULATED:
        found = expected_units(
            effect, tuple(looks), claims=claims, alpha=study.alpha, studies=_STUDIES
        )
        text += (
            f", after {found['units']:.0f} on average if each difference is one that {looks[-1]} "
            "show with 80 % power"
        )
    yield text
    yield (
        "  beyond the last one a study that is grown by --resume tests by the e-process; plan and "
        f"growth together err in up to {2 * study.alpha:g} of all studies"
    )


def _confirmation_line(study: Study) -> str:
    cells, parts = len(study.arms) * len(study.conditions), study.replicates
    size = f"{len(study.arms)} arms × {len(study.conditions)} conditions"
    if len(parts) == 1:
        seeds = study.confirm.seed_list
        runs = cells * len(seeds)
        return f"confirmation: {size} × {len(seeds)} seeds = {runs} runs, seeds {_span(seeds)}"
    count = study.confirm.count
    runs = cells * count * len(parts)
    return (
        f"confirmation: {len(parts)} replicates × {size} × {count} "
        f"seed{'s' * (count > 1)} of each = {runs} runs"
    )


def _split_lines(study: Study) -> Iterator[str]:
    """Claims on what selects the winners, and the early epochs that the test split measures."""
    searched = study.search.metrics if study.search else []
    for claim in study.claims:
        selected = selected_on(parse_metric(claim["metric"]), searched)
        if selected:
            yield f"note: {claim['id']}: {selection_note(selected)}"
        if claim["metric"] == "seconds":
            yield (
                f"note: {claim['id']}: seconds depend on the machine and on what else runs there; "
                "flops and views do not"
            )
    kept: dict[str, set[int]] = {}
    for metrics in epochs_on_test(study).values():
        for metric, epochs in metrics.items():
            kept.setdefault(metric, set()).update(epochs)
    for metric, epochs in kept.items():
        yield (
            f"note: {metric} at epochs {_span(sorted(epochs))} is measured after the last epoch, "
            "with the models kept until then: the test split is read once"
        )


def _budget_lines(study: Study) -> Iterator[str]:
    """What one training may spend, where that is not a number of epochs."""
    budgets: dict[tuple[str, float], dict[str, str]] = {}
    for arm in arms_of(study).values():
        for condition in study.conditions:
            budget = arm.settings[condition].get("budget")
            for unit, amount in budget.items() if isinstance(budget, Mapping) else ():
                if unit != "epochs":
                    lengths = budgets.setdefault((unit, amount), {})
                    lengths.setdefault(arm.name, _span_of(arm.length(condition)))
    for (unit, amount), lengths in budgets.items():
        epochs = ", ".join(f"{arm} {span}" for arm, span in lengths.items())
        if unit != "seconds":
            yield f"budget: {amount:,} {unit} a training; epochs: {epochs}"
        else:
            yield f"budget: {duration(amount)} of training each; epochs: {epochs}"
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
    several = search.replicates > 1
    times = f"{search.replicates} independent searches × " * several
    yield (
        f"search: {times}{len(study.arms)} arms × {search.trials_per_arm} trials on {metrics} "
        f"under {study.tuned_under}, seed {search.seed}, {stopping}"
    )
    if several:
        yield f"  each draws anew: {', '.join(search.vary)}; claims are about the {study.about}"
    if search.pruned:
        yield f"  {_rungs(study, search.pruned)}"
    arms = arms_of(study)
    for arm, settings in study.arms.items():
        space = arms[arm].space
        drawn = ", ".join(f"{name} {_range(p)}{_when(p, space)}" for name, p in space.items())
        yield f"  {arm}: {_settings(settings)}; searches {drawn or 'nothing'}"
    unused = set(search.space) - {name for arm in arms.values() for name in arm.space}
    for name in sorted(unused):
        yield f"  note: {name} is searched for no arm: conditions or arms set it, or none uses it"


def _rungs(study: Study, rule: EarlyStopping) -> str:
    """Epochs after which trials may be stopped, which differ where the arms' lengths do."""
    told: dict[str, list[str]] = {}
    for arm in arms_of(study).values():
        length = arm.length(study.tuned_under)
        if length is None:
            continue
        rungs = rule.rungs(length[1])
        if rule.rule != "asha":
            text = f"each epoch from {rungs[0]}"
        else:
            text = f"epoch{'s' * (len(rungs) > 1)} {', '.join(map(str, rungs))}"
        most = "at most " * timed(study, study.tuned_under)
        told.setdefault(f"{text} of {most}{length[1]}", []).append(arm.name)
    if len(told) == 1:
        return f"may be stopped after {next(iter(told))}"
    return "may be stopped after " + "; ".join(f"{', '.join(a)}: {t}" for t, a in told.items())


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


def _when(parameter: Parameter, space: Mapping[str, Parameter]) -> str:
    """With which values of other searched settings a dimension is drawn, if not with all."""
    named = [
        f"{name} is {' or '.join(map(str, values))}"
        for name, values in parameter.when.items()
        if name in space
    ]
    return f" where {' and '.join(named)}" if named else ""


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _span(seeds: list[int]) -> str:
    if len(seeds) > 2 and list(seeds) == [seeds[0] + i for i in range(len(seeds))]:
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)
