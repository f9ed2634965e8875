"""The plan, what was declared before the data were seen.

It is the part of a study's YAML that the statistics need: arms, conditions, seeds, metrics,
claims, margin, alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import TableError, nearest
from analysis.inputs.claim_checks import KINDS, arm_names, check_claims, condition_names
from analysis.inputs.metric import DIRECTIONS, Metric, Metrics, parse_metric
from analysis.inputs.plain_yaml import MOST_CHARACTERS, Loader, Unusable
from analysis.inputs.published import Published, check_published, read_published

LEAST_ALPHA = 1e-9  # below it the power of a test cannot be computed in double precision


@dataclass(frozen=True)
class Claim:
    """One declared contrast: of arm `b` against arm `a`, differences are b - a.

    `kind` is difference, interaction or curve; `asks` is better, less_hurt or equivalent;
    `conditions` holds one condition, or (from, to) for an interaction.
    """

    id: str
    asks: str
    kind: str
    a: str
    b: str
    metric: Metric
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The design record.

    `declared` is False where there was no plan at all; `metrics` are the names of
    `confirm.metrics`, `meanings` knows the direction and the unit of any metric; `scope` is method
    or configuration, None without a plan; `looks` are the planned looks in units, the last one the
    whole plan; `trials` is each arm's, per replicate, None without a search; by the first of
    `search_metrics` its winners were chosen; `space` are the searched settings, each with the
    values of others (`when`) without which it is not drawn; `published` is what papers printed;
    `embedding` are the arms of that figure, all of them if it is empty, None where it is not asked
    for.
    """

    name: str | None = None
    question: str | None = None
    arms: tuple[str, ...] = ()
    arm_settings: Mapping[str, Any] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    seeds: tuple = ()
    planned_n: int | None = None
    metrics: tuple[str, ...] = ()
    meanings: Metrics = field(default_factory=Metrics)
    claims: tuple[Claim, ...] = ()
    published: tuple[Published, ...] = ()
    margin: float | None = None
    alpha: float = 0.05
    chance: float | None = None
    pilot_sd: float | None = None
    hash: str | None = None
    looks_planned: int = 1
    looks: tuple[int, ...] = ()
    scope: str | None = None
    replicates: int | None = None
    trials: int | None = None
    correction: str = "max_t"
    search_condition: str | None = None
    search_metrics: tuple[str, ...] = ()
    space: Mapping[str, Mapping[str, tuple]] = field(default_factory=dict)
    declared: bool = False
    overridden: tuple[str, ...] = ()
    embedding: tuple[str, ...] | None = None

    @property
    def claimed_costs(self) -> tuple[str, ...]:
        """Costs that claims are about: of each run the last figure counts."""
        claimed = dict.fromkeys(claim.metric.base for claim in self.claims)
        return tuple(metric for metric in claimed if self.meanings.is_cost(metric))


def read_plan(
    source: str | Path | Mapping | None,
    *,
    better: str | Mapping[str, str] | None = None,
    **overrides: float | None,
) -> Plan:
    """The plan in a study's YAML or mapping; what overrides it is noted in `overridden`.

    Args:
        source: a path, a mapping, or None for no plan.
        better: directions of metrics, as for `analysis.inputs.metric.Metrics`.
        overrides: alpha, margin and chance; None leaves the plan's.

    Raises:
        TableError: the file is missing, is not a YAML mapping, or its claims are faulty.
    """
    given, where = _set(overrides), _Places(source)
    mapping = _load(source)
    _check_directions(better)
    if mapping is None:
        return Plan(meanings=Metrics(None, better), **_checked(given, "arguments"))
    for name in ("arms", "conditions"):
        _section(mapping, name, where, list | Mapping)
    confirm, search = (_section(mapping, name, where) for name in ("confirm", "search"))
    _refuse_faults(mapping, better, str(where))
    numbers = {name: mapping.get(name) for name in ("alpha", "margin", "chance")}
    declared, given = _checked(_set(numbers), str(where)), _checked(given, "arguments")
    conditions = condition_names(mapping)
    claims = tuple(_claim(c, i, conditions) for i, c in enumerate(mapping.get("claims") or ()))
    without, meanings = Metrics(mapping.get("metrics")), Metrics(mapping.get("metrics"), better)
    seeds, looks = confirm.get("seeds"), mapping.get("looks", 1)
    replicates = _replicates(search.get("replicates"), where)
    return Plan(
        name=mapping.get("name"),
        question=mapping.get("question"),
        arms=arm_names(mapping),
        arm_settings=mapping.get("arms") or {},
        conditions=conditions,
        seeds=tuple(seeds) if isinstance(seeds, list | tuple) else (),
        planned_n=_planned_n(replicates, seeds),
        metrics=tuple(confirm.get("metrics") or ()),
        meanings=meanings,
        claims=claims,
        published=read_published(mapping.get("published"), claims),
        pilot_sd=mapping.get("pilot_sd"),
        hash=mapping.get("hash"),
        looks_planned=looks if isinstance(looks, int) and looks > 0 else 1,
        looks=_looks(confirm.get("looks"), replicates, where),
        scope=_scope(mapping, where),
        replicates=replicates,
        trials=search.get("trials_per_arm"),
        correction=_one_of(mapping, "correction", ("max_t", "holm"), where) or "max_t",
        search_condition=search.get("under") or conditions[0],
        search_metrics=_all(search.get("metric")),
        space=_space(_section(search, "space", where)),
        declared=True,
        overridden=_overridden(declared, given, claims, without, meanings),
        embedding=_embedding(mapping.get("figures"), arm_names(mapping), where),
        **{**declared, **given},
    )


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _refuse_faults(mapping: Mapping, better: str | Mapping[str, str] | None, where: str) -> None:
    """Raise TableError with all faults of the claims, if there are any."""
    lines = [
        f"{'.'.join(map(str, path))}: {what} (allowed: {allowed}; try: {try_})"
        for path, what, allowed, try_ in [
            *check_claims(mapping, better=better),
            *check_published(mapping),
        ]
    ]
    if lines:
        raise TableError(
            "the plan's claims are faulty\n    " + "\n    ".join(lines),
            where=where,
            allowed="claims as in docs/statistics.md",
            try_="correct the lines above",
        )


def _overridden(
    declared: Mapping, given: Mapping, claims: Sequence[Claim], without: Metrics, meanings: Metrics
) -> tuple[str, ...]:
    """What of the plan was given another value: alpha, margin, or the direction of a metric."""
    changed = [
        key
        for key in ("alpha", "margin")
        if key in given and given[key] != declared.get(key, 0.05 if key == "alpha" else None)
    ]
    known = [c.metric.base for c in claims if without.direction(c.metric.base)]
    if any(without.direction(m) != meanings.direction(m) for m in known):
        changed.append("better")
    return tuple(changed)


class _Places:
    """Where the keys of a plan stand, as `file:line`; `str` is the plan as a whole."""

    def __init__(self, source: str | Path | Mapping | None) -> None:
        self._file = Path(source) if isinstance(source, str | Path) else None

    def __str__(self) -> str:
        return "plan" if self._file is None else str(self._file)

    def of(self, *keys: str) -> str:
        """The line of a key below others, or of the last of them that is written."""
        line, node = None, None
        if self._file is not None:
            node = yaml.compose(self._file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        for key in keys:
            pairs = node.value if isinstance(node, yaml.MappingNode) else ()
            found = [pair for pair in pairs if pair[0].value == key]
            if not found:
                break
            line, node = found[-1][0].start_mark.line + 1, found[-1][1]
        return f"{self}:{line}" if line else str(self)


def _replicates(replicates: Any, where: _Places) -> int | None:
    if replicates is None or (type(replicates) is int and replicates >= 1):
        return replicates
    raise TableError(
        f"search.replicates is {replicates!r}",
        where=where.of("search", "replicates"),
        allowed="a whole number of at least 1",
        try_="replicates: 8",
    )


def _scope(mapping: Mapping, where: _Places) -> str:
    """What claims are about: a method as this search tunes it, or settings as written or frozen.

    A plan from before replicates has neither `scope` nor `search.replicates`; its single search
    allows claims about the frozen settings only.
    """
    said = _one_of(mapping, "scope", ("method", "configuration"), where)
    search = mapping.get("search") or {}
    if said == "method" and not search:
        raise TableError(
            "scope is method, and there is no search whose luck it could average over",
            where=where.of("scope"),
            allowed="scope: configuration, or a search",
            try_="scope: configuration",
        )
    return said or ("method" if "replicates" in search else "configuration")


def _one_of(mapping: Mapping, key: str, allowed: tuple[str, ...], where: _Places) -> str | None:
    said = mapping.get(key)
    if said is not None and said not in allowed:
        near = nearest(said, allowed) or allowed[0]
        raise TableError(
            f"{key} is {said!r}",
            where=where.of(key),
            allowed=" or ".join(allowed),
            try_=f"{key}: {near}",
        )
    return said


def _embedding(figures: Any, arms: tuple[str, ...], where: _Places) -> tuple[str, ...] | None:
    """The arms of the figure `embedding`, from `figures: [embedding]` or `{embedding: [arms]}`."""
    if not figures:
        return None
    asked = [figures] if isinstance(figures, str) else figures
    asked = dict.fromkeys(map(str, asked)) if isinstance(asked, list) else asked
    drawn = asked.get("embedding") or [] if isinstance(asked, Mapping) else None
    if drawn is None or set(asked) != {"embedding"} or not isinstance(drawn, list):
        raise TableError(
            f"figures is {figures!r}",
            where=where.of("figures"),
            allowed="embedding, alone or with a list of arms",
            try_="figures: [embedding]",
        )
    unknown = next((str(arm) for arm in drawn if arms and str(arm) not in arms), None)
    if unknown is not None:
        raise TableError(
            f"figures.embedding has {unknown}, which is no arm",
            where=where.of("figures", "embedding"),
            allowed=", ".join(arms),
            try_=nearest(unknown, arms) or arms[0],
        )
    return tuple(dict.fromkeys(map(str, drawn)))


def _looks(looks: Any, replicates: int | None, where: _Places) -> tuple[int, ...]:
    """`confirm.looks`: numbers of units that increase, the last no more than the replicates."""
    if not looks:
        return ()
    whole = isinstance(looks, list | tuple) and all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in looks
    )
    if not whole or list(looks) != sorted(set(looks)):
        raise TableError(
            f"confirm.looks is {looks!r}",
            where=where.of("confirm", "looks"),
            allowed="numbers of units that increase, such as [8, 12, 16]",
            try_="looks: [8, 12, 16]",
        )
    if replicates and looks[-1] > replicates:
        raise TableError(
            f"the last of confirm.looks is {looks[-1]}, after the last replicate ({replicates})",
            where=where.of("confirm", "looks"),
            allowed=f"looks up to {replicates}",
            try_=f"search.replicates: {looks[-1]}",
        )
    return tuple(looks)


def _planned_n(replicates: Any, seeds: Any) -> int | None:
    """Units: replicates where there are several, else seeds."""
    if isinstance(replicates, int) and replicates > 1:
        return replicates
    number = len(seeds) if isinstance(seeds, list | tuple) else seeds
    return number if isinstance(number, int) else None


def _all(metric: str | list | None) -> tuple[str, ...]:
    return tuple(metric) if isinstance(metric, list) else (metric,) if metric else ()


def _space(space: Mapping) -> dict[str, dict[str, tuple]]:
    """Each searched setting with the values of others under which it is drawn."""
    found = {}
    for name, drawn in space.items():
        when = drawn.get("when") if isinstance(drawn, Mapping) else None
        pairs = when.items() if isinstance(when, Mapping) else ()
        found[name] = {n: tuple(v) if isinstance(v, list) else (v,) for n, v in pairs}
    return found


def _section(mapping: Mapping, name: str, where: _Places, kind: Any = Mapping) -> Any:
    section = mapping.get(name) or {}
    if not isinstance(section, kind):
        raise TableError(
            f"{name} is {section!r}",
            where=where.of(name),
            allowed=f"a mapping, as in docs/study.md, or no {name}",
            try_="pass the study.yaml of the study",
        )
    return section


def _load(source: str | Path | Mapping | None) -> Mapping | None:
    if source is None or isinstance(source, Mapping):
        return source
    path = Path(source)
    try:
        with path.open(encoding="utf-8") as stream:
            mapping = yaml.load(stream.read(MOST_CHARACTERS + 1), Loader=Loader)
    except Unusable as error:
        raise TableError(
            str(error.problem),
            where=f"{path}:{error.problem_mark.line + 1}",
            allowed=error.allowed,
            try_=error.remedy or "correct this line of the plan",
        ) from None
    except OSError:
        raise TableError(
            "the plan does not exist",
            where=str(path),
            allowed="a study's YAML file",
            try_="check the path, or leave --plan out",
        ) from None
    except (yaml.YAMLError, ValueError) as error:  # a path with a NUL, no UTF-8
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise TableError(
            f"the plan does not parse ({getattr(error, 'problem', error)})",
            where=f"{path}{line}",
            allowed="YAML",
            try_="check indentation, colons and quotes there",
        ) from None
    if not isinstance(mapping, Mapping):
        raise TableError(
            "the plan is not a mapping",
            where=str(path),
            allowed="keys such as claims",
            try_="pass the study.yaml of the study",
        ) from None
    return mapping


def _checked(given: dict[str, Any], where: str) -> dict[str, float]:
    limits = {
        "alpha": f"a number from {LEAST_ALPHA:g} to below 1, such as 0.05",
        "margin": "a number > 0 in the metric's unit, such as 0.005",
        "chance": "a number: the score of guessing, such as 0.1 for ten classes",
    }
    for key, value in given.items():
        good = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and (value == value and abs(value) < float("inf"))
        )
        if good and key == "alpha":
            good = LEAST_ALPHA <= value < 1
        if good and key == "margin":
            good = value > 0
        if not good:
            raise TableError(
                f"{key} is {value!r}",
                where=where,
                allowed=limits[key],
                try_="correct it, or leave it out",
            )
    return given


def _check_directions(better: str | Mapping[str, str] | None) -> None:
    for metric, direction in ({"": better} if isinstance(better, str) else better or {}).items():
        if direction not in DIRECTIONS:
            near = nearest(direction, DIRECTIONS) or "lower"
            raise TableError(
                f"better is {direction!r}" + (f" for {metric}" if metric else ""),
                where="arguments",
                allowed="higher, lower, METRIC=higher or METRIC=lower",
                try_=f"--better {metric}={near}" if metric else f"--better {near}",
            )


def _claim(claim: Mapping, index: int, conditions: tuple[str, ...]) -> Claim:
    asks = next(kind for kind in KINDS if kind in claim)
    metric = parse_metric(claim["metric"])
    kind = "interaction" if asks == "less_hurt" else "curve" if metric.window else "difference"
    where = (
        (str(claim["from"]), str(claim["to"]))
        if asks == "less_hurt"
        else (str(claim.get("under", conditions[0])),)
    )
    a = claim["to"] if asks == "equivalent" else claim["than"]
    name = str(claim.get("id", index + 1))
    return Claim(name, asks, kind, str(a), str(claim[asks]), metric, where)
