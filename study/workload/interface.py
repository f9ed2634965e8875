"""The interface between a study and what it trains: the workload.

`contrastive` is the built-in workload, and any importable function is one
(`study.workload.function`). A workload imports nothing of `study`: it fits this Protocol by its
shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from study.workload.run import Run

Settings = dict[str, Any]  # of one training, by name


class Workload(Protocol):
    """What can be trained, seen from a study. Everything that passes is plain data.

    Methods raise ValueError for settings that cannot be trained. The error may say more in three
    attributes: `settings`, the names it is about, the best place first; `allowed`; and `remedy`.

    Attributes:
        hints: type of each setting, with pydantic's `Annotated[..., Field(...)]` as bounds.
        defaults: of the settings that have one.
        open: whether settings of any other name are taken too.
        not_searched: settings that define the contest, such as the data; the same for all trials.
        not_of_arms, not_of_conditions: settings that arms, or conditions, may not set.
        metrics: `better`, `unit` and `kind` of each metric that is reported.
        search_metric: that trials are judged by unless the study says otherwise; "" for none.
        confirm_metrics: that claims may be about unless the study says otherwise.
        test_curves: test metrics that it measures of earlier epochs too, after the last one, where
            `run.test_epochs` asks for them.
        keepable: what a run of the confirmation can keep where `run.to_keep` asks for it.
        recorded_once: metrics without a value per epoch, by which no trial can be judged.
        first_epoch: 0 where the untrained model is reported too, else 1.
        length_settings: settings, beside `epochs`, on which the number of epochs depends.
        data_settings: settings that decide which data are prepared, or that need something of them.
        weight_settings: settings on which the memory of a training depends.
        environment: environment variables that workers need.
        packages: top-level packages that are shipped to the workers of a cluster.
    """

    hints: Mapping[str, Any]
    defaults: Mapping[str, Any]
    open: bool
    not_searched: frozenset[str]
    not_of_arms: frozenset[str]
    not_of_conditions: frozenset[str]
    metrics: Mapping[str, Mapping[str, str]]
    search_metric: str
    confirm_metrics: Sequence[str]
    test_curves: Sequence[str]
    keepable: Sequence[str]
    recorded_once: frozenset[str]
    first_epoch: int
    length_settings: Sequence[str]
    data_settings: Sequence[str]
    weight_settings: Sequence[str]
    environment: Sequence[str]
    packages: Sequence[str]

    def extended(
        self, trainings: Sequence[Mapping[str, Any]], load: Callable[[str], Any]
    ) -> Workload:
        """The workload with the user's own parts (`loss: my_losses:barlow`) that settings name.

        Args:
            trainings: settings as written, of trial, arms and conditions, and searched choices.
            load: imports what `module:name` stands for; raises ValueError.
        """

    def try_parts(self) -> None:
        """Run each of the user's own parts once on tiny data; ValueError tells which one fails."""

    def complete(self, settings: Mapping[str, Any]) -> Settings:
        """Every setting by name, checked together, ready for JSON.

        Args:
            settings: only what was written or drawn; the others get their defaults.
        """

    def applies(self, name: str, settings: Mapping[str, Any]) -> bool:
        """Whether a setting counts, given the others: an option of another loss does not."""

    def unused(self, name: str, settings: Mapping[str, Any]) -> tuple[str, str]:
        """Why a setting that does not apply does not, and which ones do."""

    def explain(self, name: str, value: Any) -> tuple[str, str] | None:
        """What is allowed and what to try for a wrong value, where the type alone is no help."""

    def timed(self, settings: Mapping[str, Any]) -> bool:
        """Whether seconds end the training."""

    def measured_every(self, settings: Mapping[str, Any]) -> int:
        """Epochs between evaluations."""

    def unmeasured(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """The metrics that a training does not record, each with the setting that is the reason."""

    def prepare(self, settings: Mapping[str, Any]) -> str:
        """Have the data ready, in the driver; a handle that workers get as `run.prepared`."""

    def length(self, settings: Mapping[str, Any], *, data: bool = True) -> tuple[int, int] | None:
        """The fewest and the most epochs; None where only data could tell that are not looked at.

        A workload whose trainings have no planned number of epochs always returns None.
        """

    def weight(self, settings: Mapping[str, Any]) -> tuple[tuple[Any, ...], float]:
        """Kind and size of a training's memory: of one kind, the largest needs the most."""

    def seconds(self, settings: Mapping[str, Any]) -> float:
        """Device-seconds of one training, from a few batches timed now."""

    def check_environment(self, trainings: Sequence[Mapping[str, Any]]) -> None:
        """ValueError where installed packages do not allow these trainings."""

    def train(self, run: Run, settings: Settings) -> None:
        """Train in a worker and report to `run`; `settings` are `complete`."""


class SettingsError(ValueError):
    """Settings that cannot be trained, with what `Workload`'s errors may say."""

    def __init__(self, message: str, *settings: str, allowed: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.settings, self.allowed, self.remedy = settings, allowed, remedy
