"""What fully describes one training, apart from its seed?"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from contrastive.budget import Budget
from contrastive.catalogue import ENCODER_NAMES, LOSS_OPTIONS
from contrastive.data import DATASETS

Probability = Annotated[float, Field(ge=0, le=1)]
DatasetName = Literal[tuple(DATASETS)]  # type: ignore[valid-type]
EncoderName = Literal[ENCODER_NAMES]  # type: ignore[valid-type]
LossName = Literal[tuple(LOSS_OPTIONS)]  # type: ignore[valid-type]


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
    floor: Literal["clamp", "biased"] = "clamp"

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
        return self


SETTINGS: tuple[str, ...] = tuple(f.name for f in fields(TrainConfig))


def settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting of `config` by name, ready for JSON."""
    values = asdict(config)
    if config.budget is not None:
        values["budget"] = {k: v for k, v in values["budget"].items() if v is not None}
    return values


def selection(config: TrainConfig) -> dict[str, Any]:
    """The settings that decide which images are trained on: arguments of `load_dataset`."""
    return {
        "name": config.dataset,
        "path": config.dataset_path,
        "split_seed": config.split_seed,
        "train_limit": config.train_limit,
        "imbalance": config.imbalance,
    }
