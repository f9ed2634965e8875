"""A study as plain checked data: arms, conditions, search, confirmation, claims.

`study.spec.load` reads it from a file, `study.spec.study_checks` checks its parts against each
other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    field_serializer,
    field_validator,
    model_validator,
)

from study.design.seeds import derive
from study.workload import Settings, Workload, load_object, load_workload

SEARCH_SEED = 0  # of all search trials, unless the study names another

Sampler = Literal["tpe", "random", "qmc", "gp", "nsga2", "grid"]
SAMPLERS: tuple[str, ...] = get_args(Sampler)
Varied = Literal["sampler", "training", "split"]  # what a replicate draws anew
SPLIT = "split_seed"  # the setting that `vary: [split]` changes
LARGEST_SEED = 2**32 - 1  # what NumPy, scikit-learn and Optuna take
MOST_RUNS = 2000  # units, seeds of a unit, and both multiplied: what a report can hold
LEAST_ALPHA = 1e-9  # below it the power of a test cannot be computed in double precision

Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, strict=True, serialize_by_alias=True
    )


class Parameter(_Model):
    """One dimension of the search space: a range or a list of choices."""

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: Annotated[float, Field(gt=0)] | None = None
    choices: Annotated[list[Any], Field(max_length=1000)] | None = None
    when: dict[str, Any] = {}  # active only if each of these settings has one of these values

    @field_validator("when")
    @classmethod
    def _values_as_lists(cls, when: dict[str, Any]) -> dict[str, list[Any]]:
        return {name: v if isinstance(v, list) else [v] for name, v in when.items()}

    @model_validator(mode="after")
    def _one_kind(self) -> Parameter:
        bounds = (self.low is not None) + (self.high is not None)
        if (self.choices is None) == (bounds == 0) or bounds == 1:
            raise ValueError("a parameter has either both `low` and `high`, or `choices`")
        if self.step is not None and bounds == 2 and not self.step * 1e9 >= self.high - self.low:
            raise ValueError(
                f"`step` is {self.step:g}, too small for the range: "
                "at least a billionth of it is allowed"
            )
        if self.choices is not None:
            if not self.choices:
                raise ValueError("`choices` is empty")
            if any(c in self.choices[:i] for i, c in enumerate(self.choices)):
                raise ValueError("`choices` has a value twice")
            if self.log or self.step:
                raise ValueError("`log` and `step` belong to a range, not to `choices`")
        elif self.low >= self.high:
            raise ValueError(f"`low` is {self.low:g}, not below `high`, {self.high:g}")
        elif self.log and self.low <= 0:
            raise ValueError(f"`low` is {self.low:g}; with `log: true` it must be above 0")
        elif self.log and self.step:
            raise ValueError("`log` and `step` cannot be combined")
        return self

    def holds(self, value: Any) -> bool:
        """Whether `value` can be drawn from this dimension."""
        if self.choices is not None:
            return value in self.choices
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
            and (self.step is None or self._on_grid(value))
        )

    def _on_grid(self, value: float) -> bool:
        steps = (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-6


class Metric(_Model):
    """What a reported figure is.

    `better` gives the sign of every difference. `unit: fraction` is a number in [0, 1], shown in
    per cent; any other unit stands behind the number. A `cost` is not what a method is for: no
    winner is chosen by it alone.
    """

    better: Literal["higher", "lower"]
    unit: str = ""
    kind: Literal["quality", "cost"] = "quality"


class EarlyStopping(_Model):
    """When trials are stopped, for each arm by itself.

    `asha`: asynchronous successive halving; `median` and `wilcoxon`: Optuna's pruners, which
    compare with the arm's finished trials at every epoch from the grace on.
    """

    rule: Literal["asha", "median", "wilcoxon"] = "asha"
    grace_epochs: Annotated[int, Field(ge=1)] | None = None  # None: a fifth of the epochs
    reduction_factor: Annotated[int, Field(ge=2)] = 3

    def grace(self, epochs: int) -> int:
        """Epochs that every trial has."""
        return self.grace_epochs or max(1, epochs // 5)

    def rungs(self, epochs: int) -> Sequence[int]:
        """The epochs, before the last, at which trials may be stopped."""
        if self.rule != "asha":
            return range(self.grace(epochs), epochs)
        found, epoch = [], self.grace(epochs)
        while epoch < epochs:
            found.append(epoch)
            epoch *= self.reduction_factor
        return found


class Budget(_Model):
    """What an arm may spend; it starts no trial once that is reached."""

    epochs: Annotated[int, Field(ge=1)] | None = None
    device_hours: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Budget:
        if self.epochs is None and self.device_hours is None:
            raise ValueError("a budget has `epochs`, `device_hours` or both")
        return self


class Rechecks(_Model):
    """The best trials of an arm, trained again on further seeds before one of them wins."""

    top: Annotated[int, Field(ge=1)]
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=MOST_RUNS)]


class Search(_Model):
    """The search phase: how each arm is tuned on the validation split."""

    trials_per_arm: Annotated[int, Field(ge=1)]
    # Independent searches of each arm. One says nothing about methods, only about configurations.
    replicates: Annotated[int, Field(ge=1, le=MOST_RUNS)] = 1
    vary: Annotated[list[Varied], Field(min_length=1)] = ["sampler", "training"]
    under: str | None = None  # condition; the first one if not given
    space: dict[str, Parameter]
    first: list[Settings] = []  # tried before anything is drawn
    require: list[str] = []  # constraints such as "batch_size * num_positives <= 2048"
    sampler: Sampler = "tpe"
    early_stopping: EarlyStopping | Literal["none"] = "none"
    # One, or a list: the first decides who wins, the others, costs, shape what is drawn.
    metrics: Annotated[list[str], Field(min_length=1, alias="metric")]
    smooth_epochs: Annotated[int, Field(ge=1)] = 1  # judged by the mean of the last so many
    rechecks: Rechecks | None = None
    budget: Budget | None = None
    max_failures: Annotated[int, Field(ge=0)] = 3  # of an arm; one more pauses the study
    seed: Seed = SEARCH_SEED
    parallel_per_arm: Annotated[int, Field(ge=1)] | None = None  # None: as many as slots allow

    @field_validator("early_stopping", mode="before")
    @classmethod
    def _rule_by_name(cls, value: Any) -> Any:
        return {"rule": value} if isinstance(value, str) and value != "none" else value

    @field_validator("require", "metrics", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_serializer("metrics")
    def _one_by_itself(self, metrics: list[str]) -> str | list[str]:
        return metrics[0] if len(metrics) == 1 else metrics

    @property
    def metric(self) -> str:
        """The one by which trials are ranked and winners chosen."""
        return self.metrics[0]

    @property
    def pruned(self) -> EarlyStopping | None:
        """The rule for early stopping, or None."""
        return None if self.early_stopping == "none" else self.early_stopping


class Confirm(_Model):
    """The confirmation phase: fresh seeds, shared by all arms and conditions."""

    seeds: (
        Annotated[int, Field(ge=1, le=MOST_RUNS)]
        | Annotated[list[Seed], Field(max_length=MOST_RUNS)]
    )
    metrics: Annotated[list[str], Field(min_length=1)]
    # Replicates after which claims are tested; the study ends where all of them are decided.
    looks: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] | None = None
    # Of the trained models, by names that the workload offers; None: nothing.
    keep: Annotated[list[str], Field(min_length=1)] | None = None

    @property
    def count(self) -> int:
        """How many seeds there are."""
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds)

    @property
    def seed_list(self) -> list[int]:
        """The declared seeds; a number n declares 1, …, n."""
        return list(range(1, self.seeds + 1)) if isinstance(self.seeds, int) else self.seeds


class Resources(_Model):
    """What one training is given."""

    cpus: Annotated[int, Field(ge=1)] = 1
    gpus: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    retries: Annotated[int, Field(ge=0)] = 2  # after a lost worker or node
    # Seconds of silence after which a training's worker is ended; auto: by what they took so far.
    patience: Annotated[float, Field(gt=0)] | Literal["auto", "none"] = "auto"


class Figures(_Model):
    """Figures of the report that are drawn only where they are asked for.

    `embedding` lists its arms, all of them if it is empty.
    """

    embedding: list[str] | None = None


RECORDED = ("id", "hash", "environments")  # what `study.yaml` has beside the design


class Study(_Model):
    """A whole study, as resolved from its file, profile and overrides."""

    name: str
    question: str = ""
    workload: str = "contrastive"
    beside: str = ""  # folder of the study file, where modules of the user's own are looked for
    metrics: dict[str, Metric] = {}  # all that the workload reports
    trial: Settings = {}
    arms: Annotated[dict[str, Settings], Field(min_length=1)]
    conditions: Annotated[dict[str, Settings], Field(min_length=1)] = {"default": {}}
    search: Search | None = None
    confirm: Confirm
    scope: Literal["method", "configuration"] | None = None  # of the claims; None: see `about`
    claims: list[dict[str, Any]] = []
    published: dict[str | int | float, Any] | None = None  # what papers printed, by claim
    margin: Annotated[float, Field(gt=0)] | None = None
    alpha: Annotated[float, Field(ge=LEAST_ALPHA, lt=0.5)] = 0.05
    pilot_sd: Annotated[float, Field(gt=0)] | None = None
    chance: Annotated[float, Field(ge=0, lt=1)] | None = None  # score of a run that diverged
    looks: Annotated[int, Field(ge=1, le=MOST_RUNS)] = (
        1  # planned looks at the results, the last included
    )
    figures: Figures | None = None  # of the report, beside those that it always has
    resources: Resources = Resources()

    _workload: Workload | None = PrivateAttr(None)
    _arms: Any = PrivateAttr(None)  # of `study.design.arms`
    _number: int | None = PrivateAttr(None)
    _sampler_seed: int | None = PrivateAttr(None)

    @field_validator("figures", mode="before")
    @classmethod
    def _figures_by_name(cls, value: Any) -> Any:
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list):
            value = dict.fromkeys(map(str, value))
        if not isinstance(value, dict):
            return value
        return {name: [] if arms is None else arms for name, arms in value.items()}

    def bind(self, workload: Workload) -> Study:
        """This study, with its workload at hand."""
        self._workload = workload
        return self

    @property
    def trains(self) -> Workload:
        """What the study trains.

        Raises:
            SettingsError: it cannot be found or imported (any more).
        """
        if self._workload is None:
            declared = {name: m.model_dump() for name, m in self.metrics.items()}
            found = load_workload(self.workload, self.beside, declared)
            self._workload = found.extended(self.mentioned(), self.load_part)
        return self._workload

    @property
    def about(self) -> Literal["method", "configuration"]:
        """What claims are about: methods where they are tuned, else configurations."""
        return self.scope or ("configuration" if self.search is None else "method")

    @property
    def number(self) -> int | None:
        """Which replicate this is, from 1; None for a study as a whole."""
        return self._number

    @property
    def sampler_seed(self) -> int:
        """Of the samplers; the trials' training seed is `search.seed`."""
        assert self.search is not None
        return self.search.seed if self._sampler_seed is None else self._sampler_seed

    @functools.cached_property
    def replicates(self) -> list[Study]:
        """The independent parts of the study: one study for each replicate, or the study itself.

        A replicate has its own search and confirmation seeds and, if `vary` says so, its own split,
        all from a hash of the study's seed and its number: the same in every arm.
        """
        if self.search is None or self.search.replicates == 1:
            return [self]
        return [self._replicate(number) for number in range(1, self.search.replicates + 1)]

    def _replicate(self, number: int) -> Study:
        search, vary = self.search, self.search.vary
        small = 2**31  # seeds that every library takes
        trained = derive(search.seed, "training", number) % small
        changes: dict[str, Any] = {
            "confirm": self.confirm.model_copy(
                update={
                    "seeds": [
                        derive(search.seed, "confirmation", number, i) % small
                        for i in range(self.confirm.count)
                    ]
                }
            ),
        }
        if "training" in vary:
            drawn: dict[str, Any] = {"seed": trained}
            if search.rechecks:
                again = [
                    derive(search.seed, "recheck", number, seed) % small
                    for seed in search.rechecks.seeds
                ]
                drawn["rechecks"] = search.rechecks.model_copy(update={"seeds": again})
            changes["search"] = search.model_copy(update=drawn)
        if "split" in vary:
            split = derive(search.seed, "split", number) % small
            changes["trial"] = self.trial | {SPLIT: split}
        found = self.model_copy(update=changes)
        found._workload, found._arms, found._number = self._workload, None, number
        found.__dict__.pop("replicates", None)
        sampled = derive(search.seed, "replicate", number) % small
        found._sampler_seed = sampled if "sampler" in vary else search.seed
        return found

    @property
    def all_seeds(self) -> list[int]:
        """The confirmation's seeds of all replicates."""
        return [seed for part in self.replicates for seed in part.confirm.seed_list]

    def load_part(self, name: str) -> Any:
        """What `module:name` stands for in this study; raises SettingsError."""
        return load_object(name, self.beside)

    def mentioned(self) -> list[Settings]:
        """Settings as written in trial, arms, conditions, and the choices of the search."""
        space = self.search.space if self.search else {}
        searched = [
            {name: choice} for name, p in space.items() if p.choices for choice in p.choices
        ]
        rooms = [{}, *self.arms.values(), *self.conditions.values(), *searched]
        return [self.trial | settings for settings in rooms]

    def task(self, *, required: list[str]) -> dict[str, Any]:
        """The part of every job that says which function it calls and what that must report."""
        own = {n: m.model_dump() for n, m in self.metrics.items()} if ":" in self.workload else {}
        return {
            "workload": self.workload,
            "beside": self.beside,
            "declared": own,
            "required": tuple(required),
        }

    @property
    def claimed_costs(self) -> list[str]:
        """Metrics of claims that are costs: a run has to report them."""
        claimed = dict.fromkeys(str(claim["metric"]) for claim in self.claims)
        return [m for m in claimed if m in self.metrics and self.metrics[m].kind == "cost"]

    @property
    def shown_metric(self) -> str:
        """The metric that progress and `runs.csv` show: the search's, else a validation metric."""
        if self.search:
            return self.search.metric
        names = [*self.metrics]
        return next((n for n in names if n.startswith("val/")), self.confirm.metrics[0])

    def better(self, metric: str) -> Literal["higher", "lower"]:
        """Which way a metric is better."""
        return self.declared_metric(metric).better

    def declared_metric(self, metric: str) -> Metric:
        """What a metric is; of a study recorded before metrics were, what its workload says."""
        found = self.metrics.get(metric)
        return found if found is not None else Metric(**self.trains.metrics[metric])

    @property
    def tuned_under(self) -> str:
        """The condition of the search phase."""
        named = self.search.under if self.search else None
        return named or next(iter(self.conditions))

    def fixed(self, arm: str, condition: str) -> Settings:
        """What is set for a training before the search adds to it.

        A condition is a stress put on all arms alike, so it overrides an arm's own setting.
        """
        return self.trial | self.arms[arm] | self.conditions[condition]

    def declared(self) -> dict[str, Any]:
        """The study as plain data, for `study.yaml` and its hash."""
        data = self.model_dump(mode="json", exclude_none=True)
        if self.search is None or self.search.replicates == 1:
            data["confirm"]["seeds"] = self.confirm.seed_list
        if self.search is not None:
            data["scope"] = self.about
        for metric in data["metrics"].values():
            if not metric["unit"]:
                del metric["unit"]
        if not data["beside"]:
            del data["beside"]
        if self.search:
            for parameter in data["search"]["space"].values():
                if not parameter["when"]:
                    del parameter["when"]
        return data
