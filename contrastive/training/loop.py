"""The training of one encoder, from a configuration and a seed to its figures."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from contrastive.augmentations import PIPELINES, Draws
from contrastive.config import TrainConfig, needing_labels, selection
from contrastive.data import Dataset, implied_tau_plus, load_dataset, refuse_unlabelled
from contrastive.device import waits
from contrastive.encoders import ENCODERS, Inputs, SimCLR, build_model
from contrastive.losses import LOSSES, accepted, loss_named, needs_labels, needs_two_labels
from contrastive.seeds import derive
from contrastive.training.batches import Epoch, draw
from contrastive.training.compiled import Compiled, wanted
from contrastive.training.evaluation import Count
from contrastive.training.evaluator import Evaluator, on_device
from contrastive.training.flops import flops_if_known
from contrastive.training.kept import Trained
from contrastive.training.length import check_batch_fits, extent, views_per_step

STATE_VERSION = 1
_LOOK_EVERY = 8  # steps between looks at the clock where a GPU must be waited for to read it


class Diverged(RuntimeError):
    """The loss stopped being finite: a result of the arm, not a fault of the machine."""

    def __init__(self, epoch: int, last: dict[str, float]) -> None:
        super().__init__(f"the loss is not finite in epoch {epoch}; last finite metrics: {last}")
        self.epoch = epoch
        self.last = last


class StateError(ValueError):
    """A saved state belongs to another configuration, seed or version."""


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch left behind; epoch 0 is the untrained encoder.

    Attributes:
        epoch: 0 to the last one, which `extent` gives beforehand; the last may be cut short.
        metrics: floats by name: `train/loss` in nats, `val/knn_top1` in [0, 1], `test/…` in the
            last record if the test split was asked for; and what has been spent so far: `seconds`
            of training and evaluation, `views` seen in training, and the encoder's `flops` on
            them, forward and backward.
        counts: whole-number counts of those metrics that are accuracies.
        state: gives what `train(..., state=...)` needs to continue after this epoch.
        last: whether the training ends with this epoch.
        earlier: in the last record, the test accuracies of earlier epochs that were asked for.
        trained: in the last record of a training that read the test split.
    """

    epoch: int
    metrics: dict[str, float]
    counts: dict[str, Count]
    state: Callable[[], dict[str, Any]] = field(repr=False)
    last: bool = False
    earlier: Mapping[int, Mapping[str, Count]] = field(default_factory=dict)
    trained: Trained | None = field(default=None, repr=False)


def train(
    config: TrainConfig,
    seed: int,
    *,
    dataset: Dataset | None = None,
    state: dict[str, Any] | None = None,
    read_test: bool = True,
    test_epochs: Mapping[str, Sequence[int]] | None = None,
    device: torch.device | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[EpochRecord]:
    """Train one encoder and yield a record after each epoch, the untrained encoder's first.

    The seed fixes initial weights, order of images and augmentation draws, whatever the loss,
    the batch size, the number of views or the noise: runs of the same seed are paired.

    Args:
        config: the settings.
        seed: of weights, order and draws.
        dataset: loaded from `config` if not given.
        state: of an earlier record's `state()`; training continues exactly after that epoch.
        read_test: read the test split, once, after the last epoch.
        test_epochs: by test accuracy, the epochs whose encoder is kept in memory and in the state,
            and measured in that one reading too: `{"test/knn_top1": [1, 2]}`.
        device: the first GPU if there is one, else the CPU.
        options: of a loss of the user's own, by name; without one its default applies.

    Raises:
        Diverged: the loss became NaN or infinite.
        StateError: `state` was saved by another training.
        DataError: the data cannot be read, or do not suit the settings.
    """
    training = _Training(config, seed, dataset, device, options)
    training.test_epochs = dict(test_epochs or {}) if read_test else {}
    if state is None:
        yield training.evaluate()
    else:
        training.load(state)
    while not training.finished:
        training.run_epoch()
        yield training.evaluate(read_test=read_test)


class _Training:
    """The mutable state of one training: model, optimiser, epoch, and what it has cost."""

    def __init__(
        self,
        config: TrainConfig,
        seed: int,
        dataset: Dataset | None,
        device: torch.device | str | None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.seed = config, seed
        self.dataset = dataset if dataset is not None else dataset_of(config)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.epoch, self.views, self.mean_loss = 0, 0, float("nan")
        self.seconds, self.training_seconds = 0.0, 0.0  # with and without evaluations
        self.last: dict[str, float] = {}
        self.test_epochs: dict[str, Sequence[int]] = {}
        self.kept: dict[int, dict[str, Tensor]] = {}  # weights of the backbone, by epoch
        refuse_unlabelled(self.dataset.train.labels, needing_labels(config))
        self.extent = extent(config, len(self.dataset.train))
        self.pipeline = PIPELINES[self.dataset.augmentation]
        # One uint8 tensor on the device; float batches are made from it by index.
        self.train = on_device(self.dataset.train, self.device)
        self.inputs = Inputs.of(self.train.images, precision=config.precision)
        self.initial_model = partial(
            _initial_model, config, seed, self.train.images.shape[1], self.device
        )
        self.evaluator = Evaluator(
            config, seed, self.dataset, self.train, self.inputs, untrained=self.initial_model
        )
        self.model = self.initial_model()
        # On a CPU the single fused kernel saves a few per cent; without it results are the same.
        self.optimiser = torch.optim.Adam(
            self.model.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.loss = loss_named(config.loss)
        self.loss_options = _loss_options(config, self.dataset.train.labels, options or {})
        self.needs_labels = needs_labels(config.loss, false_negatives=config.false_negatives)
        shape = tuple(self.train.images.shape[1:])
        flops = flops_if_known(config.encoder, shape, config.projection_dim)
        self.flops_per_view = None if flops is None else flops.training
        self.encode = self._encoder()

    def _encoder(self) -> Callable[[Tensor], Tensor]:
        """The model as the training steps call it: compiled, if that repays."""
        config, views = self.config, views_per_step(self.config)
        flops = self.extent.all_steps * views * (self.flops_per_view or 0)
        if not wanted(config.compile, self.device, flops=flops, seconds=self._seconds_left()):
            return self.model
        shape = tuple(self.train.images.shape[1:])
        variant = (
            config.encoder,
            config.projection_dim,
            shape,
            views,
            self.inputs.reduced,
            self.device,
        )
        return Compiled(self.model, variant=variant, required=config.compile == "on")

    @property
    def finished(self) -> bool:
        """Whether the budget is spent."""
        return self.epoch >= self.extent.epochs or self._seconds_left() <= 0

    def run_epoch(self) -> None:
        """One pass over the training split, or as much of it as the budget leaves."""
        started = time.perf_counter()
        config, epoch = self.config, self.epoch + 1
        choices = self.choices(epoch)
        out_of_time = self._deadline(started)
        self.model.train()
        total, steps = torch.zeros((), device=self.device), 0
        with self._own_numbers("training", epoch):
            while steps < self.extent.steps_of(epoch) and not out_of_time(steps):
                total += self._step(*choices.batch(steps, config.batch_size))
                steps += 1
        # The last step of an epoch can break the weights without a loss that shows it.
        finite = torch.stack([torch.isfinite(p).all() for p in self.model.parameters()]).all()
        # Read once an epoch: a GPU is not waited for at every step.
        loss_sum, weights_finite = torch.stack([total.double(), finite.double()]).tolist()
        self.mean_loss = loss_sum / steps
        self.epoch, self.views = epoch, self.views + steps * views_per_step(config)
        spent = time.perf_counter() - started
        self.seconds, self.training_seconds = self.seconds + spent, self.training_seconds + spent
        if not (math.isfinite(loss_sum) and weights_finite):
            raise Diverged(epoch, self.last)

    def choices(self, epoch: int) -> Epoch:
        """Order, sources and draws of an epoch, on the device.

        Raises:
            ValueError: a batch of a single label, and a loss that needs two.
        """
        config, labels = self.config, self.dataset.train.labels
        drawn = draw(
            self.pipeline,
            labels,
            seed=self.seed,
            epoch=epoch,
            views=config.num_positives + 1,
            false_positive_rate=config.false_positive_rate,
        )
        if waits(self.device) and self._needs_two_labels:
            drawn.check_labels(labels, self.extent.steps_of(epoch), config.batch_size)
        return drawn.to(self.device)

    def _step(self, index: Tensor, source: Tensor, draws: Draws) -> Tensor:
        """One step of the optimiser on the images `index`; the loss, not waited for."""
        batch = self.pipeline(
            self.train.images[source] / 255, draws, blur_prob=self.config.blur_prob
        )
        with self.inputs.autocast():
            embeddings = self.encode(self.inputs.normalise(batch))  # (V·B, D), one encoder pass
        options = self.loss_options
        if self.needs_labels:
            options = options | {"labels": self.train.labels[index]}
        loss = self.loss(embeddings.float().unflatten(0, (-1, len(index))), **options)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    @contextlib.contextmanager
    def _own_numbers(self, *purpose: str | int) -> Iterator[None]:
        """Where parts of the user's own draw from the global generator (dropout), seed it.

        The draws then follow from seed and epoch, after a resume too. Built-in parts never draw
        from it; it is left as it was found.
        """
        config = self.config
        if config.loss in LOSSES and config.encoder in ENCODERS and not config.evaluations:
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(derive(self.seed, "own parts", *purpose))
            yield

    def _seconds_left(self) -> float:
        budget = self.config.budget
        if budget is None or budget.seconds is None:
            return math.inf
        return budget.seconds - self.training_seconds

    def _deadline(self, started: float) -> Callable[[int], bool]:
        """Whether the budget's time is over after so many steps of an epoch begun at `started`."""
        left = self._seconds_left()
        if left == math.inf:
            return lambda steps: False

        def out_of_time(steps: int) -> bool:
            if steps == 0:
                return False  # an epoch that was begun has a step
            if self.device.type == "cuda":
                if steps % _LOOK_EVERY:
                    return False
                torch.cuda.synchronize(self.device)  # else only the launching would be timed
            return time.perf_counter() - started >= left

        return out_of_time

    @property
    def _needs_two_labels(self) -> bool:
        return needs_two_labels(self.config.loss, false_negatives=self.config.false_negatives)

    def evaluate(self, *, read_test: bool = False) -> EpochRecord:
        """The record of the epoch just finished; the test split only after the last one."""
        started = time.perf_counter()
        last = self.finished
        counts: dict[str, Count] = {}
        earlier: dict[int, dict[str, Count]] = {}
        trained: Trained | None = None
        metrics: dict[str, float] = {} if self.epoch == 0 else {"train/loss": self.mean_loss}
        if self.epoch == 0 and self.config.tau_plus == "auto" and "tau_plus" in self.loss_options:
            metrics["tau_plus"] = self.loss_options["tau_plus"]  # what `auto` came to
        if last or self.epoch % self.config.eval_every == 0:
            with self._own_numbers("evaluation", self.epoch):
                found = self.evaluator(self.model, read_test=last and read_test)
            counts = found.counts
            metrics |= found.metrics
            if found.test is not None:
                trained = Trained(self.model, self.inputs, self.dataset.classes, found.test)
        if any(self.epoch in epochs for epochs in self.test_epochs.values()):
            weights = self.model.backbone.state_dict()
            self.kept[self.epoch] = {n: w.to("cpu", copy=True) for n, w in weights.items()}
        if last and read_test:
            earlier = {epoch: self._measured_again(epoch) for epoch in sorted(self.kept)}
        self.seconds += time.perf_counter() - started
        metrics |= {name: count.accuracy for name, count in counts.items()}
        metrics |= {"seconds": self.seconds, "views": float(self.views)}
        if self.flops_per_view is not None:
            metrics["flops"] = float(self.views * self.flops_per_view)
        self.last = metrics
        return EpochRecord(self.epoch, metrics, counts, self.save, last, earlier, trained)

    def _measured_again(self, epoch: int) -> dict[str, Count]:
        """Test accuracies of a kept encoder: those of a training that had ended there."""
        names = [name for name, epochs in self.test_epochs.items() if epoch in epochs]
        model = self.initial_model()
        model.backbone.load_state_dict(self.kept[epoch])
        with self._own_numbers("evaluation", epoch):
            return self.evaluator.accuracies(model, names)

    def save(self) -> dict[str, Any]:
        """Everything that the next epoch depends on; safe for `torch.load(weights_only=True)`.

        No generator is among it: draws follow from seed and epoch (see `contrastive.seeds`).
        """
        return {
            "version": STATE_VERSION,
            "seed": self.seed,
            "loss": self.config.loss,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
            "views": self.views,
            "mean_loss": self.mean_loss,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "kept": self.kept,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `save` gave."""
        expected = {"version": STATE_VERSION, "seed": self.seed, "loss": self.config.loss}
        found = {key: state.get(key) for key in expected}
        if found != expected:
            raise StateError(f"the saved state is of {found}; this training is {expected}")
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.epoch, self.seconds = state["epoch"], state["seconds"]
        self.views, self.mean_loss = state["views"], state["mean_loss"]
        self.kept = state.get("kept", {})  # none in states saved before encoders were kept
        # States saved before budgets existed do not tell them apart.
        self.training_seconds = state.get("training_seconds", state["seconds"])


def dataset_of(config: TrainConfig) -> Dataset:
    """The dataset that `config` names, from its memory-mapped cache, which is filled if need be."""
    check_batch_fits(config)
    return load_dataset(**selection(config))


def _initial_model(config: TrainConfig, seed: int, channels: int, device: torch.device) -> SimCLR:
    weights = derive(seed, "weights")
    model = build_model(config.encoder, channels, config.projection_dim, seed=weights).to(device)
    # GPUs' tensor cores want it; on CPUs whole trainings are 1.1 to 1.2 times as fast.
    return model.to(memory_format=torch.channels_last)


def _loss_options(
    config: TrainConfig, labels: Tensor, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The keyword arguments that the configured loss takes, apart from the labels."""
    tau_plus = implied_tau_plus(labels) if config.tau_plus == "auto" else config.tau_plus
    values = vars(config) | {"tau_plus": tau_plus} | dict(options)
    return {name: values[name] for name in accepted(config.loss) if name in values}
