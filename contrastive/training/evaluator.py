"""The evaluation of a model in training: kNN on validation, and at the end the test split."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.augmentations import PIPELINES, draw_epoch
from contrastive.catalogue import metric_name, part
from contrastive.config import TrainConfig
from contrastive.data import Dataset, Split
from contrastive.encoders import Inputs, SimCLR
from contrastive.training.evaluation import (
    Count,
    Predictions,
    alignment,
    knn,
    linear_probe,
    neighbours,
    uniformity,
)

BATCH = 512
KNN, LINEAR = "test/knn", "test/linear"  # beginnings of the metrics of both classifiers

Represented = tuple[Tensor, Tensor]  # representations h (N, width) float32, labels (N,)


class Features(NamedTuple):
    """What every measure of a split's representations reads, computed once for all of them.

    Attributes:
        bank: (N, width) float32, h of the labelled training images, without augmentation.
        bank_labels: (N,) their classes.
        queries: (Q, width) float32, h of the split's images.
        labels: (Q,) their classes.
    """

    bank: Tensor
    bank_labels: Tensor
    queries: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        counts: accuracies by metric.
        metrics: other figures by metric.
        test: the features of the test split, on the device; None where it was not read.
    """

    counts: dict[str, Count]
    metrics: dict[str, float]
    test: Features | None = None


class Evaluator:
    """Measures the models of one training; keeps no state but the images.

    Args:
        config: settings of the training.
        seed: of the training; decides the views of test images, the same for every arm.
        dataset: its validation split, if it has one, is moved to the device at once, its test
            split only where it is read.
        train: the training split on the device, where everything is computed: the bank of kNN.
        inputs: normalisation and precision of the training.
        untrained: makes a model with the training's initial weights.
    """

    def __init__(
        self,
        config: TrainConfig,
        seed: int,
        dataset: Dataset,
        train: Split,
        inputs: Inputs,
        untrained: Callable[[], SimCLR],
    ) -> None:
        self._config, self._seed, self._dataset = config, seed, dataset
        self._train, self._inputs, self._untrained = train, inputs, untrained
        self._device = train.images.device
        self._val = None if dataset.val is None else on_device(dataset.val, self._device)
        self._pipeline = PIPELINES[dataset.augmentation]

    @torch.no_grad()
    def __call__(self, model: SimCLR, *, read_test: bool) -> Evaluation:
        """The figures `val/…` of a model, and with `read_test` its figures `test/…`."""
        counts: dict[str, Count] = {}
        metrics: dict[str, float] = {}
        if self._val is None and not read_test:
            return Evaluation(counts, metrics)
        bank = self.represent(model, self._train)
        if self._val is not None:
            val = self._features(model, self._val, bank)
            counts = {"val/knn_top1": self._knn(val).top(1)}
            metrics = self._own("val", val)
        if not read_test:
            return Evaluation(counts, metrics)
        test = self._features(model, self._test, bank)
        on_test = self._on_test(model, test)
        return Evaluation(counts | on_test.counts, metrics | on_test.metrics, test)

    @torch.no_grad()
    def accuracies(self, model: SimCLR, names: Collection[str]) -> dict[str, Count]:
        """Accuracies of a model on the test split, of those of kNN and linear probe."""
        test = self._features(model, self._test, self.represent(model, self._train))
        counts = {}
        if any(name.startswith(KNN) for name in names):
            counts |= _accuracies(KNN, self._knn(test))
        if any(name.startswith(LINEAR) for name in names):
            counts |= _accuracies(LINEAR, self._probe(test))
        return {name: counts[name] for name in names}

    @cached_property
    def _test(self) -> Split:
        return on_device(self._dataset.test, self._device)

    def _features(self, model: SimCLR, split: Split, bank: Represented) -> Features:
        return Features(*bank, *self.represent(model, split, labelled=False))

    def _on_test(self, model: SimCLR, test: Features) -> Evaluation:
        probe, classes = self._probe(test), self._dataset.classes
        counts = _accuracies(KNN, self._knn(test)) | _accuracies(LINEAR, probe)
        counts |= {f"{LINEAR}_top1/{classes[c]}": count for c, count in probe.by_class().items()}
        counts["test/untrained_knn_top1"] = self._untrained_knn()
        views = self._views(model, self._test)
        metrics = {"test/alignment": alignment(*views), "test/uniformity": uniformity(views[0])}
        return Evaluation(counts, metrics | self._own("test", test))

    def _own(self, split: str, features: Features) -> dict[str, float]:
        """What the user's own evaluations say of a split."""
        return {
            f"{split}/{metric_name(name)}": float(
                part("evaluations", name)(features.queries, features.labels)
            )
            for name in self._config.evaluations
        }

    def _untrained_knn(self) -> Count:
        model = self._untrained()
        bank = self.represent(model, self._train)
        return self._knn(self._features(model, self._test, bank)).top(1)

    def _views(self, model: SimCLR, test: Split) -> tuple[Tensor, Tensor]:
        """Embeddings z of two views of each test image, the same draws for every arm."""
        count = len(test)
        draws = draw_epoch(
            self._pipeline.widths, seed=self._seed, epoch=0, views=2, images=count
        ).to(self._device)
        parts = []
        for rows in torch.arange(2 * count, device=self._device).split(BATCH):
            images = test.images[rows % count] / 255
            batch = self._pipeline(images, draws.rows(rows), blur_prob=self._config.blur_prob)
            with self._inputs.autocast():
                parts.append(model(self._inputs.normalise(batch)).float())
        first, second = torch.cat(parts).split(count)
        return first, second

    def _knn(self, features: Features) -> Predictions:
        count, classes = len(features.bank), len(self._dataset.classes)
        k = min(self._config.knn_neighbours or neighbours(count, classes), count)
        temperature = self._config.knn_temperature
        return knn(*features, k=k, temperature=temperature, classes=classes)

    def _probe(self, features: Features) -> Predictions:
        return linear_probe(*features, classes=len(self._dataset.classes))

    @torch.no_grad()
    def represent(self, model: SimCLR, split: Split, *, labelled: bool = True) -> Represented:
        """Representations h (N, width) in float32 and labels (N,), without augmentation.

        Args:
            model: is left in evaluation mode.
            split: on the device.
            labelled: leave out images without a label.
        """
        images, labels = split.images, split.labels
        if labelled and bool((labels < 0).any()):
            images, labels = images[labels >= 0], labels[labels >= 0]
        model.eval()
        with self._inputs.autocast():
            parts = [
                model.backbone(self._inputs.normalise(part / 255)).float()
                for part in images.split(BATCH)
            ]
        return torch.cat(parts), labels


def _accuracies(prefix: str, found: Predictions) -> dict[str, Count]:
    return {
        f"{prefix}_top1": found.top(1),
        f"{prefix}_top5": found.top(5),
        f"{prefix}_worst_class": found.worst_class(),
    }


def on_device(split: Split, device: torch.device) -> Split:
    """The same images and labels on `device`."""
    return Split(split.images.to(device), split.labels.to(device))
