"""Checks across the parts of a study: settings together, seeds, metrics, data, claims."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from analysis.inputs.claim_checks import check_claims
from analysis.inputs.metric import Metric, parse_metric
from analysis.inputs.plan import read_plan
from analysis.inputs.published import check_published
from study.design import MOST_RUNS, ON_TEST, Arm, Study, arms_of
from study.errors import Fault, Path, listing, nearest
from study.spec.find_workload import fault_of
from study.spec.overrides import MOST_ARMS
from study.spec.search_checks import search_faults
from study.spec.settings_checks import settings_faults
from study.workload import Settings

FEATURES = "features"  # what the figure embedding is drawn from, by its name in confirm.keep


def study_faults(study: Study, *, data: bool, written: frozenset[str] | None = None) -> list[Fault]:
    """All faults of a study whose shape is right.

    Args:
        study: with its workload.
        data: look at the datasets too.
        written: all values in the study file, if it is known.
    """
    # As written: JSON, as which a study declares itself, has no infinite numbers.
    settings = {"trial": study.trial, "arms": study.arms, "conditions": study.conditions}
    faults = settings_faults(study.declared() | settings, study.trains)
    faults += _size_faults(study)
    if faults:
        return faults  # what follows would repeat them in other words, or take forever
    faults += search_faults(study, data=data, written=written)
    faults += _scope_faults(study)
    faults += _look_faults(study)
    faults += _seed_faults(study)
    faults += _gpu_faults(study)
    faults += _kept_faults(study)
    declared = study.declared()
    faults += [Fault(*f) for f in (*check_claims(declared), *check_published(declared))]
    if not faults:
        faults += _config_faults(study)
    if not faults:
        faults += _metric_faults(study)
        faults += _unmeasured_faults(study)
        faults += _rung_faults(study, data=data)
        faults += _window_faults(study, data=data)
    if not faults and data:
        faults += _data_faults(study)
    if not faults:
        faults += _part_faults(study)
    return faults


def _size_faults(study: Study) -> Iterator[Fault]:
    """More runs than a plan, a table and a report can hold."""
    replicates = study.search.replicates if study.search else 1
    seeds, arms, conditions = study.confirm.count, len(study.arms), len(study.conditions)
    if replicates * seeds > MOST_RUNS:
        yield Fault(
            ("confirm", "seeds"),
            f"{replicates:,} replicates with {seeds:,} seeds each are {replicates * seeds:,} units",
            f"at most {MOST_RUNS:,}",
            "seeds: 1, of each replicate",
        )
    if arms * conditions > MOST_ARMS:
        yield Fault(
            ("arms",),
            f"{arms:,} arms under {conditions:,} conditions",
            f"at most {MOST_ARMS:,} arms × conditions",
            "several studies",
        )
    if len(study.claims) > MOST_ARMS:
        what = f"there are {len(study.claims):,} claims"
        yield Fault(("claims",), what, f"at most {MOST_ARMS:,}", "the claims that you will publish")


def _metric_faults(study: Study) -> Iterator[Fault]:
    """Metrics of the confirmation that no run records."""
    known = [name for name in study.metrics if name.startswith("test/")] or list(study.metrics)
    for i, metric in enumerate(study.confirm.metrics):
        if metric not in known:
            close = nearest(metric, known)
            yield Fault(
                ("confirm", "metrics", i),
                f"confirm.metrics has `{metric}`, which no run records",
                listing(known),
                f"`{close}`" if close else "",
            )


def _unmeasured_faults(study: Study) -> Iterator[Fault]:
    """A search or claims by a metric that the settings of the data leave unmeasured."""
    judged = study.search.metrics if study.search else ()
    faults = (_unmeasured(study, "search.metric", m, study.tuned_under) for m in judged)
    yield from [fault for fault in faults if fault][:1]
    for claim in study.claims:
        metric = parse_metric(claim["metric"])
        about = [claim[key] for key in ("under", "from", "to") if claim.get(key)]
        faults = (
            _unmeasured(study, f"the metric of claim {claim['id']}", metric.base, condition)
            for condition in (about or study.conditions)
            if metric and condition in study.conditions
        )
        yield from [fault for fault in faults if fault][:1]


def _unmeasured(study: Study, what: str, metric: str, condition: str) -> Fault | None:
    settings = study.trial | study.conditions[condition]
    setting = study.trains.unmeasured(settings).get(metric)
    if setting is None:
        return None
    return Fault(
        _written(study, next(iter(study.arms)), condition, setting),
        f"{what} is {metric}, which no training records with "
        f"{setting}: {str(settings[setting]).lower()}",
        f"no `search`, and claims about test metrics; or another {setting}",
        f"search without `{setting}`, then confirm the winners in a study that has it",
    )


def _rung_faults(study: Study, *, data: bool) -> Iterator[Fault]:
    """Epochs at which trials are compared and nothing is measured."""
    rule = study.search.pruned if study.search else None
    every = study.trains.measured_every(study.trial)
    if rule is None or rule.rule != "asha":
        return
    for arm in arms_of(study).values():
        length = arm.length(study.tuned_under, data=data)
        missed = [rung for rung in rule.rungs(length[1]) if rung % every] if length else []
        if missed:
            yield Fault(
                ("trial", "eval_every"),
                f"trials of {arm.name} may be stopped at epoch {missed[0]}, where eval_every: "
                f"{every} measures nothing",
                "rungs, grace_epochs times powers of reduction_factor, at multiples of eval_every",
                f"trial: {{eval_every: 1}}, or grace_epochs: {every}",
            )
            return


def _window_faults(study: Study, *, data: bool) -> Iterator[Fault]:
    """Windows of claims that begin or end where nothing is measured, or after the last epoch."""
    every = study.trains.measured_every(study.trial)
    for i, claim in enumerate(study.claims):
        metric = parse_metric(claim["metric"])
        if metric is None or metric.window is None:
            continue
        if metric.base.startswith(ON_TEST) and metric.base not in study.trains.test_curves:
            yield _no_test_curve(study, i, metric)
        elif metric.base in study.trains.recorded_once:
            yield Fault(
                ("claims", i, "metric"),
                f"{metric.base} is recorded once per run and has no curve",
                "a metric with a value per epoch",
            )
        elif any(end % every for end in metric.window):
            yield Fault(
                ("claims", i, "metric"),
                f"the window of {claim['metric']} begins or ends where eval_every: {every} "
                "measures nothing",
                f"epochs that are multiples of {every}",
            )
        else:
            yield from _after_the_end(study, i, metric, data=data)


def _no_test_curve(study: Study, i: int, metric: Metric) -> Fault:
    """A window of a test metric that the workload has at the last epoch only."""
    curves = listing(study.trains.test_curves)
    validated = metric.base.replace(ON_TEST, "val/", 1)
    return Fault(
        ("claims", i, "metric"),
        f"{metric.base} is read once per run, after the last epoch, and has no curve",
        f"windows of {curves}, or of a metric that is reported at every epoch"
        if curves
        else f"with the workload {study.workload}, windows of metrics that it reports at every "
        "epoch; of the built-in workload, of accuracies on the test split too",
        metric.text.replace(metric.base, validated) if validated in study.metrics else "",
    )


def _after_the_end(study: Study, i: int, metric: Metric, *, data: bool) -> Iterator[Fault]:
    """A window that continues after the last epoch of a training that the claim is about."""
    claim = read_plan(study.declared()).claims[i]
    arms = [arm for name, arm in arms_of(study).items() if name in (claim.a, claim.b)]
    for arm, condition in itertools.product(arms, claim.conditions):
        length = arm.length(condition, data=data)
        if length and metric.window[1] > length[0]:
            fewest = length[0]
            yield Fault(
                ("claims", i, "metric"),
                f"the window of {metric.text} ends after the last epoch of {arm.name} under "
                f"{condition}, whose trainings may have no more than {fewest}",
                f"epochs within 0-{fewest}",
                f"auc({metric.base}, epochs {min(metric.window[0], fewest)}-{fewest})",
            )
            return


def _scope_faults(study: Study) -> Iterator[Fault]:
    """A scope that the design cannot have."""
    if study.scope == "method" and study.search is None:
        yield Fault(
            ("scope",),
            "scope is method, but there is no search: nothing is tuned, so that claims are about "
            "the configurations as they are written",
            "configuration; or a search with replicates",
            "scope: configuration",
        )


def _look_faults(study: Study) -> Iterator[Fault]:
    """Looks that are out of order, or that the replicates never reach."""
    looks, path = study.confirm.looks, ("confirm", "looks")
    replicates = study.search.replicates if study.search else 0
    if looks is None:
        return
    if any(later <= earlier for earlier, later in itertools.pairwise(looks)):
        yield Fault(
            path,
            f"confirm.looks is {looks}, which does not increase",
            "numbers of replicates that increase, such as [8, 12, 16]",
            f"looks: {sorted(set(looks))}",
        )
    elif study.search is None:
        yield Fault(
            path,
            "confirm.looks are numbers of replicates, but there is no search, hence no replicate",
            "no looks; or a search with replicates",
            "leave out `looks:`",
        )
    elif replicates == 1 or looks[-1] > replicates:
        only = "replicate" if replicates == 1 else "replicates"
        yield Fault(
            path,
            f"confirm.looks ends at {looks[-1]}, but the search has {replicates} {only}",
            "numbers of replicates, the last of them what the search has",
            f"search: {{replicates: {looks[-1]}}}",
        )


def _seed_faults(study: Study) -> Iterator[Fault]:
    if len(study.replicates) > 1:
        return  # each has seeds of its own
    seeds = study.confirm.seed_list
    doubled = sorted(seed for seed, times in Counter(seeds).items() if times > 1)
    if doubled:
        message = f"confirm.seeds has {listing(doubled)} more than once"
        yield Fault(("confirm", "seeds"), message, "each seed once: a repeated run is no new run")
    if not seeds:
        yield Fault(("confirm", "seeds"), "confirm.seeds is empty", "at least 1 seed, 6 to decide")
    if study.search is None:
        return
    rechecked = study.search.rechecks.seeds if study.search.rechecks else []
    seen = sorted(set(rechecked) & set(seeds))
    if seen:
        yield Fault(
            ("search", "rechecks", "seeds"),
            f"search.rechecks.seeds shares {listing(seen)} with confirm.seeds: the winners "
            "would be confirmed on seeds that chose them",
            "seeds outside of confirm.seeds",
            f"seeds: [{max(seeds) + 101}, {max(seeds) + 102}]",
        )
    if study.search.seed in rechecked:
        message = f"search.rechecks.seeds contains {study.search.seed}, the seed of the search"
        yield Fault(("search", "rechecks", "seeds"), message, "other seeds: that one is known")
    if study.search.seed in seeds:
        yield Fault(
            ("confirm", "seeds"),
            f"confirm.seeds contains {study.search.seed}, the seed of the search: the winners "
            "were chosen on it",
            "seeds that the search never saw",
            f"seeds: {max(1, len(seeds))}, which stands for 1 to {max(1, len(seeds))}",
        )


def _gpu_faults(study: Study) -> Iterator[Fault]:
    """Ray assigns parts of one card, or whole cards."""
    gpus = study.resources.gpus
    if gpus != "auto" and gpus > 1 and not float(gpus).is_integer():
        yield Fault(
            ("resources", "gpus"),
            f"resources.gpus is {gpus:g}: a training has a part of one card, or whole cards",
            "auto, a number of at most 1, or a whole number",
            f"gpus: {int(gpus)}, or gpus: {int(gpus) + 1}",
        )


def _kept_faults(study: Study) -> Iterator[Fault]:
    """What the workload cannot keep, and figures of what is not kept."""
    offered, asked = study.trains.keepable, study.confirm.keep or []
    for name in asked:
        if name not in offered:
            close = nearest(name, offered)
            yield Fault(
                ("confirm", "keep"),
                f"confirm.keep has `{name}`, which the workload {study.workload} cannot keep",
                listing(offered) or "no `keep`: a function keeps files itself, with run.keep",
                f"`{close}`" if close else "",
            )
    if study.figures is None or study.figures.embedding is None:
        return
    if offered and FEATURES not in asked:
        yield Fault(
            ("figures",),
            "the figure embedding is drawn from the features of the confirmation's runs, and "
            "confirm.keep does not ask for them",
            "figures of what is kept",
            f"confirm: {{keep: [{', '.join([*asked, FEATURES])}]}}",
        )
    for i, arm in enumerate(study.figures.embedding):
        if arm not in study.arms:
            close = nearest(arm, study.arms)
            yield Fault(
                ("figures", "embedding", i),
                f"no arm is called {arm}",
                listing(study.arms),
                f"`{close}`" if close else "",
            )


def _config_faults(study: Study) -> Iterator[Fault]:
    """Combinations that no single setting shows: every arm under every condition, space ends."""
    for arm in arms_of(study).values():
        usable = True
        for condition, settings in arm.settings.items():
            # What is searched may be required of the function, and is drawn.
            error = _refused(study, arm.space.middle() | settings)
            if error:
                usable = usable and condition != study.tuned_under
                yield _config_fault(study, arm, condition, error)
        for name, settings in arm.space.corners() if usable else ():
            error = _refused(study, settings)
            if error:
                message = f"search.space.{name}, arm {arm.name}: {error}"
                yield Fault(("search", "space", name), message)
                break


def _refused(study: Study, settings: Settings) -> ValueError | None:
    try:
        study.trains.complete(settings)
    except ValueError as error:
        return error
    return None


def _config_fault(study: Study, arm: Arm, condition: str, error: ValueError) -> Fault:
    about = getattr(error, "settings", ())
    if getattr(error, "allowed", "") or getattr(error, "remedy", ""):
        return fault_of(error, _written(study, arm.name, condition, *about))
    path = _culprit(study, arm.name, condition, str(error))
    return Fault(path, f"arm {arm.name}: {error}")


def _culprit(study: Study, arm: str, condition: str, error: str) -> Path:
    """The written setting that the message begins with, else the arm."""
    rooms: tuple[tuple[Path, Settings], ...] = (
        (("conditions", condition), study.conditions[condition]),
        (("arms", arm), study.arms[arm]),
        (("trial",), study.trial),
    )
    for path, settings in rooms:
        for name in settings:
            if error.startswith(name):
                return (*path, name)
    return ("arms", arm)


def _data_faults(study: Study) -> Iterator[Fault]:
    """Data that cannot be prepared, or that do not suit a training: a batch above the split."""
    seen: set[tuple[Any, ...]] = set()
    for arm, condition in itertools.product(arms_of(study).values(), study.conditions):
        for settings in _extremes(study, arm, condition):
            key = tuple(
                str(settings.get(name))
                for name in (*study.trains.data_settings, *study.trains.length_settings)
            )
            if key in seen:
                continue
            seen.add(key)
            try:
                study.trains.prepare(settings)
                study.trains.length(settings)
            except ValueError as error:
                about = getattr(error, "settings", ())
                yield fault_of(error, _written(study, arm.name, condition, *about))


def _extremes(study: Study, arm: Arm, condition: str) -> Iterable[Settings]:
    """The arm's settings, and those with what is searched of lengths and data at its ends."""
    yield arm.settings[condition]
    for name in (*study.trains.length_settings, *study.trains.data_settings):
        parameter = arm.space.get(name)
        for value in (parameter.choices or [parameter.high]) if parameter else ():
            whole = int(value) if isinstance(value, float) else value
            yield arm.settings[condition] | {name: whole}


def _written(study: Study, arm: str, condition: str, *names: str) -> Path:
    """Where the first of `names` that is set anywhere was set, the strongest place first."""
    for name in names:
        if name in study.conditions[condition]:
            return ("conditions", condition, name)
        if name in study.arms[arm]:
            return ("arms", arm, name)
        if study.search and name in study.search.space:
            return ("search", "space", name)
        if name in study.trial:
            return ("trial", name)
    return ("trial",)


def _part_faults(study: Study) -> Iterator[Fault]:
    """A loss or an encoder of the user's own that fails on a tiny batch, before any worker does."""
    try:
        study.trains.try_parts()
    except ValueError as error:
        places = {
            path: value
            for room in (("trial",), *(("arms", name) for name in study.arms))
            for path, value in _settings_at(study, room)
        }
        mentioned = [
            path for path, value in places.items() if f"{value}" and f"{value}" in str(error)
        ]
        yield fault_of(error, mentioned[0] if mentioned else ("workload",))


def _settings_at(study: Study, room: Path) -> list[tuple[Path, Any]]:
    settings = study.trial if room == ("trial",) else study.arms[str(room[1])]
    return [((*room, name), value) for name, value in settings.items() if ":" in str(value)]
