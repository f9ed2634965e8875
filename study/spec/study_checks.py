"""Do the parts of a study fit each other, its losses, its data and its claims?"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from analysis.inputs.claim_checks import check_claims
from analysis.inputs.metric import Metric, parse_metric
from analysis.inputs.plan import read_plan
from contrastive.budget import conflict
from contrastive.config import TrainConfig
from contrastive.data import DataError
from contrastive.training.length import batches
from study.data import train_count
from study.design import search_space
from study.design.length import epochs_of
from study.design.study import Settings, Study
from study.errors import Fault, Path, listing, nearest
from study.spec.search_checks import search_faults
from study.spec.settings_checks import settings_faults

TEST_METRICS = (
    "test/knn_top1",
    "test/linear_top1",
    "test/linear_top5",
    "test/untrained_knn_top1",
    "test/alignment",
    "test/uniformity",
)


def study_faults(study: Study, *, data: bool) -> list[Fault]:
    """All faults of a study whose shape is right."""
    faults = settings_faults(study.declared())
    if faults:
        return faults  # what follows would repeat them in other words
    faults += list(search_faults(study, data=data))
    faults += list(_seed_faults(study))
    faults += list(_gpu_faults(study))
    faults += [Fault(*fault) for fault in check_claims(study.declared())]
    if not faults:
        faults += list(_config_faults(study))
    if not faults:
        faults += list(_metric_faults(study, data=data))
    if not faults and data:
        faults += list(_data_faults(study))
    return faults


def _metric_faults(study: Study, *, data: bool) -> Iterator[Fault]:
    """Metrics that no run records, and epochs at which none is measured."""
    for i, metric in enumerate(study.confirm.metrics):
        if metric not in TEST_METRICS:
            close = nearest(metric, TEST_METRICS)
            yield Fault(
                ("confirm", "metrics", i),
                f"confirm.metrics has `{metric}`, which no run records",
                listing(TEST_METRICS),
                f"`{close}`" if close else "",
            )
    every = TrainConfig(**study.trial).eval_every
    rule = study.search.pruned if study.search else None
    for arm in study.arms if rule else ():
        length = epochs_of(study, arm, study.tuned_under, data=data)
        missed = [rung for rung in rule.rungs(length[1]) if rung % every] if length else []
        if rule.rule == "asha" and missed:
            yield Fault(
                ("trial", "eval_every"),
                f"trials of {arm} may be stopped at epoch {missed[0]}, where eval_every: {every} "
                "measures nothing",
                "rungs, grace_epochs times powers of reduction_factor, at multiples of eval_every",
                f"trial: {{eval_every: 1}}, or grace_epochs: {every}",
            )
            break
    for i, claim in enumerate(study.claims):
        metric = parse_metric(claim["metric"])
        if metric and metric.window and any(end % every for end in metric.window):
            yield Fault(
                ("claims", i, "metric"),
                f"the window of {claim['metric']} begins or ends where eval_every: {every} "
                "measures nothing",
                f"epochs that are multiples of {every}",
            )
        elif metric and metric.window:
            yield from _window_faults(study, i, metric, data=data)


def _window_faults(study: Study, i: int, metric: Metric, *, data: bool) -> Iterator[Fault]:
    """A window that goes on after the last epoch of a training that the claim is about."""
    claim = read_plan(study.declared()).claims[i]
    arms = [arm for arm in study.arms if arm in (claim.a, claim.b)]
    for arm, condition in itertools.product(arms, claim.conditions):
        length = epochs_of(study, arm, condition, data=data)
        if length and metric.window[1] > length[0]:
            fewest = length[0]
            yield Fault(
                ("claims", i, "metric"),
                f"the window of {metric.text} ends after the last epoch of {arm} under "
                f"{condition}, whose trainings may have no more than {fewest}",
                f"epochs within 0-{fewest}",
                f"auc({metric.base}, epochs {min(metric.window[0], fewest)}-{fewest})",
            )
            return


def _seed_faults(study: Study) -> Iterator[Fault]:
    seeds = study.confirm.seed_list
    doubled = sorted(seed for seed, times in Counter(seeds).items() if times > 1)
    if doubled:
        message = f"confirm.seeds has {listing(doubled)} more than once"
        yield Fault(("confirm", "seeds"), message, "each seed once: a repeated run is no new run")
    if not seeds:
        yield Fault(("confirm", "seeds"), "confirm.seeds is empty", "at least 1 seed, 6 to decide")
    rechecked = study.search.rechecks.seeds if study.search and study.search.rechecks else []
    seen = sorted(set(rechecked) & set(seeds))
    if seen:
        yield Fault(
            ("search", "rechecks", "seeds"),
            f"search.rechecks.seeds shares {listing(seen)} with confirm.seeds: the winners "
            "would be confirmed on seeds that chose them",
            "seeds outside of confirm.seeds",
            f"seeds: [{max(seeds) + 101}, {max(seeds) + 102}]",
        )
    if study.search and study.search.seed in rechecked:
        message = f"search.rechecks.seeds contains {study.search.seed}, the seed of the search"
        yield Fault(("search", "rechecks", "seeds"), message, "other seeds: that one is known")
    if study.search and study.search.seed in seeds:
        yield Fault(
            ("confirm", "seeds"),
            f"confirm.seeds contains {study.search.seed}, the seed of the search: the winners "
            "were chosen on it",
            "seeds that the search never saw",
            f"seeds: {max(1, len(seeds))}, which stands for 1 to {max(1, len(seeds))}",
        )


def _gpu_faults(study: Study) -> Iterator[Fault]:
    """Ray shares out parts of one card, or whole cards."""
    gpus = study.resources.gpus
    if gpus != "auto" and gpus > 1 and not gpus.is_integer():
        yield Fault(
            ("resources", "gpus"),
            f"resources.gpus is {gpus:g}: a training has a part of one card, or whole cards",
            "auto, a number of at most 1, or a whole number",
            f"gpus: {int(gpus)}, or gpus: {int(gpus) + 1}",
        )


def _config_faults(study: Study) -> Iterator[Fault]:
    """Combinations that no single setting shows: every arm under every condition, space ends."""
    for arm in study.arms:
        for condition in study.conditions:
            fixed = study.fixed(arm, condition)
            fault = conflict(fixed)
            if fault:
                yield Fault(_written(study, arm, condition, "epochs", "budget"), fault, *_ONE_OF)
                continue
            error = _refused(fixed)
            if error:
                yield Fault(_culprit(study, arm, condition, error), f"arm {arm}: {error}")
        space, fixed = search_space.arm_space(study, arm), study.fixed(arm, study.tuned_under)
        for name, settings in search_space.corners(space, fixed):
            error = _refused(settings)
            if error and not _refused(fixed):
                yield Fault(("search", "space", name), f"search.space.{name}, arm {arm}: {error}")
                break


_ONE_OF = (
    "`epochs`, or a `budget` of epochs or views; with a budget of seconds both",
    "trial: {epochs: null} beside the budget takes back the epochs of the file",
)


def _refused(settings: Settings) -> str | None:
    try:
        TrainConfig(**settings)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        return str(details.get("ctx", {}).get("error", details["msg"]))
    return None


def _culprit(study: Study, arm: str, condition: str, error: str) -> Path:
    """The written setting that the message speaks of, else the arm."""
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
    """Datasets that are not there, and batches larger than the training split."""
    seen: set[tuple[Any, ...]] = set()
    for arm in study.arms:
        for condition in study.conditions:
            settings = study.fixed(arm, condition)
            config = TrainConfig(**settings)
            key = (config.dataset, config.dataset_path, config.split_seed, config.train_limit,
                   config.imbalance)  # fmt: skip
            sizes = [config.batch_size, *_batch_sizes(study, arm)]
            if (*key, max(sizes)) in seen:
                continue
            seen.add((*key, max(sizes)))
            try:
                count = train_count(config)
            except DataError as error:
                yield Fault(_written(study, arm, condition, "dataset_path", "dataset"), str(error))
                continue
            try:
                for size in sizes:
                    batches(TrainConfig(**(settings | {"batch_size": size})), count)
            except DataError as error:
                yield Fault(_written(study, arm, condition, "batch_size"), str(error))


def _batch_sizes(study: Study, arm: str) -> list[int]:
    parameter = search_space.arm_space(study, arm).get("batch_size")
    if parameter is None:
        return []
    return [int(v) for v in parameter.choices or [parameter.high]]


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
