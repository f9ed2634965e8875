"""The settings of one training: everything that describes it apart from its seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from contrastive.catalogue import ENCODER_NAMES, LOSS_OPTIONS, OWN_FORM, accepted, known, published
from contrastive.data import DATASETS

BUDGETS = ("epochs", "views", "seconds")
ALLOWED = "one of {epochs: N}, {views: N} and {seconds: S}, N whole numbers, all above 0"


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Budget:
    """What one training may spend, in one of three units.

    Attributes:
        epochs: passes over the training split.
        views: images that the encoder sees, M + 1 for each image of a batch. The training ends
            with the step that reaches them, so arms of different M spend the same.
        seconds: of training on the device; evaluations are not counted. Not reproducible: another
            machine, or a busier one, gets further.

    Raises:
        pydantic.ValidationError: none or several of them, or one out of range.
    """

    epochs: Annotated[int, Field(ge=1, strict=True)] | None = None
    views: Annotated[int, Field(ge=1, strict=True)] | None = None
    seconds: Annotated[float, Field(gt=0, strict=True)] | None = None

    @model_validator(mode="after")
    def _one_unit(self) -> Budget:
        if sum(getattr(self, unit) is not None for unit in BUDGETS) != 1:
            raise ValueError(f"a budget is {ALLOWED}")
        return self


def conflict(settings: Mapping[str, Any]) -> str:
    """What is wrong with `epochs` and `budget` in settings as they were written, or nothing.

    Args:
        settings: of `TrainConfig`, only those that were written.
    """
    budget, epochs = settings.get("budget"), "epochs" in settings
    if not isinstance(budget, Mapping):
        return ""
    if "seconds" in budget and not epochs:
        return "a budget of seconds needs epochs too, as the limit that a fast machine may reach"
    if "seconds" not in budget and epochs:
        return f"a budget of {', '.join(budget)} says how long to train, and epochs says it again"
    return ""


def _name_of(group: str, built_in: Collection[str]) -> BeforeValidator:
    """Admits the names of built-in and published parts, and `module:function`."""

    def check(name: Any) -> Any:
        if known(group, name, built_in):
            return name
        names = ", ".join(map(repr, [*built_in, *published(group)]))
        expected = f"{names} or {OWN_FORM!r}" if names else repr(OWN_FORM)
        raise PydanticCustomError(
            "literal_error", "Input should be {expected}", {"expected": expected}
        )

    return BeforeValidator(check)


Probability = Annotated[float, Field(ge=0, le=1)]
DatasetName = Annotated[str, _name_of("datasets", DATASETS)]
EncoderName = Annotated[str, _name_of("encoders", ENCODER_NAMES)]
LossName = Annotated[str, _name_of("losses", LOSS_OPTIONS)]
EvaluationName = Annotated[str, _name_of("evaluations", ())]


def _word(value: Any) -> Any:
    """YAML reads `on` and `off` as true and false."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Switch = Annotated[Literal["auto", "on", "off"], BeforeValidator(_word)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class TrainConfig:
    """Settings of one training; every default of the project stands here.

    The optimiser, temperature, τ⁺ and head are those of the positive-debiased preprint
    (Troeshestova & Isachenko) and of Chuang et al. 2020: Adam, learning rate 1e-3, weight
    decay 1e-6, t = 0.5, τ⁺ = 0.1, 128-d embeddings.

    Raises:
        pydantic.ValidationError: lists every setting out of range, unknown or contradictory.
    """

    dataset: DatasetName = "scattered_digits"
    dataset_path: str | None = None
    split_seed: Annotated[int, Field(ge=0)] = 0
    train_limit: Annotated[int, Field(ge=1)] | None = None  # images, stratified
    imbalance: Annotated[float, Field(gt=0, le=1)] = 1.0  # rarest class / commonest class
    image_size: Annotated[int, Field(ge=4)] | None = None  # side in pixels; None: the images' own
    validation: bool = True  # False: its images train too, and nothing is measured on them

    encoder: EncoderName = "small_cnn"
    projection_dim: Annotated[int, Field(ge=2)] = 128

    loss: LossName = "contrastive"
    temperature: Annotated[float, Field(gt=0)] = 0.5
    tau_plus: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = 0.1
    beta: Annotated[float, Field(ge=0)] = 1.0  # hard_neg: concentration on hard negatives
    alpha: Probability = 0.5  # debiased_both: weight of debiased_neg
    margin: Annotated[float, Field(gt=0)] = 0.2  # triplet, as in Schroff et al. 2015
    num_positives: Annotated[int, Field(ge=1)] = 1  # M; M + 1 views of each image
    aggregation: Literal["pos_grouping", "loss_combination"] = "pos_grouping"
    false_negatives: Literal["keep", "drop"] = "keep"
    negatives: Literal["both", "across"] = "both"  # across: of losses with two encoders
    normalise: Annotated[bool, Field(strict=True)] = True  # embeddings to length 1
    floor: Literal["clamp", "biased", "positive"] = "clamp"
    # Of debiased_pos: as printed, or as the authors' notebook trains it.
    formula: Literal["published", "notebook"] = "published"

    blur_prob: Probability = 0.5  # per view; the authors' base augmentation blurs half of them
    false_positive_rate: Probability = 0.0  # a view replaced by one of another class's image

    epochs: Annotated[int, Field(ge=1)] = 30
    # Instead of `epochs`: {epochs: 50}, {views: 5_000_000}; or {seconds: 600}, `epochs` at most.
    budget: Budget | None = None
    batch_size: Annotated[int, Field(ge=2)] = 64
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 1e-6

    eval_every: Annotated[int, Field(ge=1)] = 1  # epochs between evaluations on validation
    knn_neighbours: Annotated[int, Field(ge=1)] | None = None  # None: see evaluation.neighbours
    knn_temperature: Annotated[float, Field(ge=0.001)] = 0.5  # of the preprint's code
    evaluations: tuple[EvaluationName, ...] = ()  # functions of the user's own, beside the others
    precision: Literal["auto", "float32", "bfloat16"] = (
        "auto"  # auto: bfloat16 on GPUs that have it
    )
    compile: Switch = "auto"  # of the encoder; auto: on GPUs, where it repays (compiled.wanted)

    @model_validator(mode="after")
    def _epochs_of_the_budget(self) -> TrainConfig:
        if self.budget is not None and self.budget.epochs is not None:
            object.__setattr__(self, "epochs", self.budget.epochs)
        return self

    @model_validator(mode="after")
    def _loss_can_learn(self) -> TrainConfig:
        if self.loss in ("debiased_pos", "debiased_both") and self.tau_plus == 0:
            raise ValueError(
                f"tau_plus is 0 for {self.loss}: debiased_pos is then identically 0 and teaches "
                "nothing; allowed: a number in (0, 1); try: tau_plus: 0.1"
            )
        if self.negatives == "across":
            raise ValueError(
                "negatives is across, which compares views by two encoders, and this workload has "
                "one; allowed: negatives: both"
            )
        has_floor = "floor" in LOSS_OPTIONS.get(self.loss, ())
        if has_floor and not self.normalise and self.floor != "positive":
            raise ValueError(
                f"floor is {self.floor}, the least that an estimate from embeddings of unit length "
                "can be, and normalise is false; allowed: normalise: true, or floor: positive"
            )
        return self


SETTINGS: tuple[str, ...] = tuple(f.name for f in fields(TrainConfig))

# Left out of stored configurations where they have their defaults: those that were stored before
# these settings existed stay the same.
_LATER = (
    "negatives",
    "normalise",
    "formula",
    "evaluations",
    "knn_temperature",
    "image_size",
    "validation",
)


def settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting of `config` by name, ready for JSON; of `_LATER` only those that are set."""
    values = asdict(config)
    if config.budget is not None:
        values["budget"] = {k: v for k, v in values["budget"].items() if v is not None}
    values["evaluations"] = list(values["evaluations"])
    unset = [name for name in _LATER if getattr(config, name) == getattr(TrainConfig, name)]
    return {name: value for name, value in values.items() if name not in unset}


def needing_labels(config: TrainConfig) -> dict[str, Any]:
    """The settings, by name, that need the label of every training image."""
    found: dict[str, Any] = {}
    if config.false_negatives == "drop" and "false_negatives" in accepted(config.loss):
        found["false_negatives"] = config.false_negatives
    if config.imbalance < 1:
        found["imbalance"] = config.imbalance
    return found


def selection(config: TrainConfig) -> dict[str, Any]:
    """The settings that decide which images are trained on: arguments of `load_dataset`."""
    return {
        "name": config.dataset,
        "path": config.dataset_path,
        "split_seed": config.split_seed,
        "train_limit": config.train_limit,
        "imbalance": config.imbalance,
        "image_size": config.image_size,
        "validation": config.validation,
    }
