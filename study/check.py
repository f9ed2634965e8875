"""Do the parts of a study fit each other, its losses, its data and its claims?"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from analysis.plan import check_claims, parse_metric
from contrastive.config import TrainConfig
from contrastive.data import DataError
from contrastive.training import batches, dataset_of
from study import space as spaces
from study.faults import Fault, Path, dotted, listing, nearest
from study.require import ALLOWED, names_in, satisfied
from study.spec import Settings, Study

TEST_METRICS = (
    "test/knn_top1",
    "test/linear_top1",
    "test/linear_top5",
    "test/untrained_knn_top1",
    "test/alignment",
    "test/uniformity",
)
FIELDS = tuple(f.name for f in fields(TrainConfig))


def study_faults(study: Study, *, data: bool) -> list[Fault]:
    """All faults of a study whose shape is right."""
    faults = settings_faults(study.declared())
    if faults:
        return faults  # what follows would repeat them in other words
    faults += list(_search_faults(study))
    faults += list(_seed_faults(study))
    faults += [Fault(*fault) for fault in check_claims(study.declared())]
    if not faults:
        faults += list(_config_faults(study))
    if not faults:
        faults += list(_metric_faults(study))
    if not faults and data:
        faults += list(_data_faults(study))
    return faults


def settings_faults(data: Mapping[str, Any]) -> list[Fault]:
    """Faults of single settings in `trial`, `arms`, `conditions` and `search`, however rough."""
    faults: list[Fault] = []
    rooms: list[tuple[Path, Any]] = [(("trial",), data.get("trial"))]
    for room in ("arms", "conditions"):
        found = data.get(room)
        if isinstance(found, Mapping):
            rooms += [((room, name), settings) for name, settings in found.items()]
    trial = data.get("trial")
    default_loss = trial.get("loss") if isinstance(trial, Mapping) else None
    search = data.get("search")
    searched = search.get("space") if isinstance(search, Mapping) else None
    if not (isinstance(searched, Mapping) and "loss" in searched):
        default_loss = default_loss or TrainConfig().loss
    for path, settings in rooms:
        if isinstance(settings, Mapping):
            loss = default_loss if path[0] == "arms" else None
            faults += _settings_in(path, settings, loss)
    search = data.get("search")
    if isinstance(search, Mapping):
        faults += _space_values(search)
    return faults


def _settings_in(path: Path, settings: Mapping[Any, Any], default_loss: Any = None) -> list[Fault]:
    faults = []
    for name, value in settings.items():
        fault = setting_fault((*path, name), name, value)
        if fault:
            faults.append(fault)
        elif path[0] == "arms" and name in spaces.NOT_OF_ARMS:
            message = f"{dotted((*path, name))}: arms may not differ in `{name}`"
            allowed_ = "settings of the method; data and evaluation are the same for all arms"
            faults.append(Fault((*path, name), message, allowed_, f"trial: {{{name}: {value}}}"))
        elif path[0] == "conditions" and name == "loss":
            message = f"{dotted((*path, name))}: a condition may not set the loss of all arms"
            faults.append(Fault((*path, name), message, "a stress: noise, data, batch size"))
    loss = settings.get("loss", default_loss)
    if path[0] != "trial" and isinstance(loss, str) and loss in spaces.LOSSES:
        for name in settings:
            if name in FIELDS and spaces.unused_by(loss, name):
                takes = sorted(set(spaces.accepted(loss)) & set(FIELDS))
                message = f"{dotted((*path, name))}: the loss {loss} takes no {name}"
                faults.append(Fault((*path, name), message, listing(takes)))
    return faults


def setting_fault(path: Path, name: Any, value: Any) -> Fault | None:
    """What is wrong with one setting of TrainConfig, if anything."""
    if name not in FIELDS:
        close = nearest(name, FIELDS)
        return Fault(
            path,
            f"unknown setting `{dotted(path)}`",
            listing(FIELDS),
            f"`{close}`" if close else "",
        )
    try:
        _adapter(name).validate_python(value, strict=_strict(value))
    except ValidationError as error:
        errors = error.errors(include_url=False)
        rules = list(dict.fromkeys(allowed(e["type"], e.get("ctx", {}), e["msg"]) for e in errors))
        close = None
        if isinstance(value, str):
            close = nearest(value, [n for rule in rules for n in rule.split(", ")])
        shown = repr(value) if isinstance(value, str) else value
        return Fault(
            path,
            f"{dotted(path)} is {shown}",
            " or ".join(rules),
            f"{name}: {close}" if close else "",
        )
    return None


def allowed(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What pydantic would have accepted, in few words."""
    words = {
        "greater_than": "a number above {gt}",
        "greater_than_equal": "a number of at least {ge}",
        "less_than": "a number below {lt}",
        "less_than_equal": "a number of at most {le}",
        "int_type": "a whole number",
        "int_parsing": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "float_parsing": "a number",
        "finite_number": "a finite number",
        "string_type": "a text",
        "bool_type": "true or false",
        "dict_type": "a mapping of keys to values",
        "model_type": "a mapping of keys to values",
        "list_type": "a list",
        "too_short": "at least {min_length}",
        "none_required": "nothing",
    }
    if kind == "literal_error":
        return listing(context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
    return words[kind].format(**context) if kind in words else message


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    hint = spaces.get_type_hints(TrainConfig, include_extras=True)[name]
    return TypeAdapter(hint)


def _strict(value: Any) -> bool:
    """Whole numbers may stand for floats, but no text for a number and no `true` for 1."""
    return isinstance(value, str | bool)


def _space_values(search: Mapping[str, Any]) -> list[Fault]:
    """Names and bounds in `search.space`, names in `search.first`."""
    faults: list[Fault] = []
    space = search.get("space")
    if isinstance(space, Mapping):
        for name, parameter in space.items():
            path: Path = ("search", "space", name)
            if name not in spaces.SEARCHABLE:
                faults.append(_not_searchable(path, name))
            elif isinstance(parameter, Mapping):
                choices = parameter.get("choices")
                ends = [((*path, k), parameter[k]) for k in ("low", "high") if k in parameter]
                step = parameter.get("step")
                if spaces.integral(name) and isinstance(step, float) and not step.is_integer():
                    message = f"{dotted((*path, 'step'))} is {step}, but {name} is a whole number"
                    faults.append(Fault((*path, "step"), message, "a whole number", "step: 1"))
                if isinstance(choices, list):
                    ends += [((*path, "choices", i), c) for i, c in enumerate(choices)]
                faults += [f for at, value in ends if (f := setting_fault(at, name, value))]
    return faults


def _not_searchable(path: Path, name: Any) -> Fault:
    close = nearest(name, spaces.SEARCHABLE)
    remedy = f"`{close}`" if close else ""
    if name in FIELDS:
        message = f"`{name}` cannot be searched: it defines the contest, the same for all arms"
        return Fault(path, message, listing(spaces.SEARCHABLE), f"trial: {{{name}: …}}")
    message = f"unknown setting `{dotted(path)}`"
    return Fault(path, message, listing(spaces.SEARCHABLE), remedy)


def _search_faults(study: Study) -> Iterator[Fault]:
    search = study.search
    if search is None:
        return
    if search.under is not None and search.under not in study.conditions:
        close = nearest(search.under, study.conditions)
        yield Fault(
            ("search", "under"),
            f"search.under names the condition `{search.under}`, which does not exist",
            listing(study.conditions),
            f"under: {close}" if close else "",
        )
        return
    set_by_arms = {name for arm in study.arms.values() for name in arm}
    circular = False
    for name, parameter in search.space.items():
        for asked, values in parameter.when.items():
            path: Path = ("search", "space", name, "when", asked)
            if asked not in search.space and asked not in set_by_arms:
                known = sorted({*search.space, *set_by_arms} - {name})
                close = nearest(asked, known)
                yield Fault(
                    path,
                    f"`when` of {name} asks about `{asked}`, which is neither searched nor set "
                    "by an arm",
                    listing(known),
                    f"when: {{{close}: …}}" if close else "",
                )
            elif asked in search.space:
                missing = [v for v in values if not search.space[asked].holds(v)]
                if missing:
                    message = f"`when` of {name} waits for {asked}: {missing[0]}, never drawn"
                    yield Fault(path, message, f"values in the range of {asked}")
    try:
        spaces.ordered(search.space)
    except ValueError as error:
        circular = True
        yield Fault(("search", "space"), str(error), "dimensions that do not ask in a circle")
    for i, point in enumerate(search.first):
        for name, value in point.items():
            path = ("search", "first", i, name)
            if name not in search.space:
                close = nearest(name, search.space)
                yield Fault(
                    path,
                    f"search.first sets `{name}`, which is not searched",
                    listing(search.space),
                    f"`{close}`" if close else f"trial: {{{name}: {value}}}",
                )
            elif not search.space[name].holds(value):
                message = f"search.first has {name}: {value}, outside of its range"
                yield Fault(path, message, _range(search.space[name]))
    rule = search.pruned
    for arm in study.arms:
        epochs = study.fixed(arm, study.tuned_under).get("epochs", TrainConfig().epochs)
        if rule and rule.grace(epochs) >= epochs:
            yield Fault(
                ("search", "early_stopping", "grace_epochs"),
                f"grace_epochs is {rule.grace(epochs)}, but {arm} trains for {epochs} epochs: "
                "no time is left to stop",
                f"1 to {epochs - 1}",
                f"grace_epochs: {max(1, epochs // 5)}, or early_stopping: none",
            )
            break
    yield from _require_faults(study)
    if not circular and not any(spaces.arm_space(study, arm) for arm in study.arms):
        message = "nothing is left to search: arms and conditions set every dimension of the space"
        yield Fault(("search", "space"), message, "", "leave out `search:` for an ablation")


def _require_faults(study: Study) -> Iterator[Fault]:
    """Constraints that cannot be read, and arms that cannot satisfy them."""
    search = study.search
    assert search is not None
    readable = True
    for i, constraint in enumerate(search.require):
        path: Path = ("search", "require", i)
        try:
            if not names_in(constraint) - set(FIELDS):
                for arm in study.arms:
                    for settings in _samples(study, arm):
                        satisfied(constraint, settings)
            unknown = sorted(names_in(constraint) - set(FIELDS))
        except ValueError as error:
            readable = False
            yield Fault(path, f"search.require: {error}", ALLOWED)
            continue
        for name in unknown:
            readable = False
            close = nearest(name, FIELDS)
            yield Fault(
                path,
                f"search.require speaks of `{name}`, which is no setting",
                listing(FIELDS),
                f"`{close}`" if close else "",
            )
    if not readable:
        return
    for arm in study.arms:
        for point in spaces.first_points(study, arm):
            broken = _broken(study, arm, point)
            if broken is not None:
                message = f"arm {arm}: search.first is against `{search.require[broken]}`"
                yield Fault(("search", "require", broken), message, "a first point that fits")
        draws = (spaces.random_draw(study, arm, seed) for seed in range(500))
        if search.require and all(_broken(study, arm, drawn) is not None for drawn in draws):
            message = f"arm {arm}: none of 500 random configurations satisfies search.require"
            yield Fault(("search", "require"), message, "constraints that leave something")


def _samples(study: Study, arm: str) -> Iterator[Settings]:
    """Full configurations of an arm: the ends of its space and some random ones."""
    space, fixed = spaces.arm_space(study, arm), study.fixed(arm, study.tuned_under)
    drawn = [spaces.random_draw(study, arm, seed) for seed in range(50)]
    for settings in [*(s for _, s in spaces.corners(space, fixed)), *(fixed | d for d in drawn)]:
        with contextlib.suppress(ValidationError):  # told elsewhere
            yield vars(TrainConfig(**settings))


def _broken(study: Study, arm: str, drawn: Settings) -> int | None:
    """The first constraint that the configuration is against."""
    assert study.search is not None
    try:
        config = vars(TrainConfig(**(study.fixed(arm, study.tuned_under) | drawn)))
    except ValidationError:
        return None  # told elsewhere
    for i, constraint in enumerate(study.search.require):
        try:
            if not satisfied(constraint, config):
                return i
        except ValueError:
            return i
    return None


def _range(parameter: Any) -> str:
    if parameter.choices is not None:
        return listing(parameter.choices)
    return f"{parameter.low:g} to {parameter.high:g}"


def _metric_faults(study: Study) -> Iterator[Fault]:
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
        epochs = TrainConfig(**study.fixed(arm, study.tuned_under)).epochs
        missed = [rung for rung in rule.rungs(epochs) if rung % every]
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


def _config_faults(study: Study) -> Iterator[Fault]:
    """Combinations that no single setting shows: every arm under every condition, space ends."""
    for arm in study.arms:
        for condition in study.conditions:
            error = _refused(study.fixed(arm, condition))
            if error:
                yield Fault(_culprit(study, arm, condition, error), f"arm {arm}: {error}")
        space, fixed = spaces.arm_space(study, arm), study.fixed(arm, study.tuned_under)
        for name, settings in spaces.corners(space, fixed):
            error = _refused(settings)
            if error and not _refused(fixed):
                yield Fault(("search", "space", name), f"search.space.{name}, arm {arm}: {error}")
                break


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
                count = len(dataset_of(config).train)
            except DataError as error:
                yield Fault(_written(study, arm, condition, "dataset_path", "dataset"), str(error))
                continue
            try:
                for size in sizes:
                    batches(TrainConfig(**(settings | {"batch_size": size})), count)
            except DataError as error:
                yield Fault(_written(study, arm, condition, "batch_size"), str(error))


def _batch_sizes(study: Study, arm: str) -> list[int]:
    parameter = spaces.arm_space(study, arm).get("batch_size")
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
