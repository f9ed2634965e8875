"""The evaluation of a model in training: kNN on validation, and at the end the test split."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

import torch
from torch import Tensor

from contrastive.augmentations import PIPELINES, draw_epoch
from contrastive.catalogue import metric_name, part
from contrastive.config import TrainConfig
from contrastive.data import Dataset, Split
from contrastive.encoders import SimCLR
from contrastive.training.evaluation import (
    Count,
    alignment,
    knn,
    linear_probe,
    neighbours,
    uniformity,
)
from contrastive.training.inputs import Inputs

BATCH = 512
KNN = "test/knn_top1"
PROBED = {"test/linear_top1": 1, "test/linear_top5": 5}
TEST_ACCURACIES = (KNN, *PROBED)

Features = tuple[Tensor, Tensor]  # representations h (N, width) float32, labels (N,)
Figures = tuple[dict[str, Count], dict[str, float]]  # accuracies as counts; other metrics


class Evaluator:
    """Measures the models of one training; keeps no state but the images.

    Args:
        config: settings of the training.
        seed: of the training; decides the views of test images, the same for every arm.
        dataset: its validation split is moved to the device at once, its test split only where
            it is read.
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
        self._val = on_device(dataset.val, self._device)
        self._pipeline = PIPELINES[dataset.augmentation]

    @torch.no_grad()
    def __call__(self, model: SimCLR, *, read_test: bool) -> Figures:
        """The figures `val/…` of a model, and with `read_test` its figures `test/…`."""
        bank = self.represent(model, self._train)
        queries = self.represent(model, self._val, labelled=False)
        counts = {"val/knn_top1": self._knn(bank, queries)}
        metrics = self._own("val", queries)
        if read_test:
            more_counts, more_metrics = self._on_test(model, bank)
            counts |= more_counts
            metrics |= more_metrics
        return counts, metrics

    @torch.no_grad()
    def accuracies(self, model: SimCLR, names: Collection[str]) -> dict[str, Count]:
        """Accuracies of a model on the test split, of those in `TEST_ACCURACIES`."""
        bank = self.represent(model, self._train)
        return self._accuracies(bank, self.represent(model, self._test, labelled=False), names)

    @cached_property
    def _test(self) -> Split:
        return on_device(self._dataset.test, self._device)

    def _on_test(self, model: SimCLR, bank: Features) -> Figures:
        queries = self.represent(model, self._test, labelled=False)
        counts = self._accuracies(bank, queries, TEST_ACCURACIES)
        counts["test/untrained_knn_top1"] = self._untrained_knn(self._test)
        views = self._views(model, self._test)
        metrics = {"test/alignment": alignment(*views), "test/uniformity": uniformity(views[0])}
        return counts, metrics | self._own("test", queries)

    def _accuracies(
        self, bank: Features, queries: Features, names: Collection[str]
    ) -> dict[str, Count]:
        counts = {}
        if KNN in names:
            counts[KNN] = self._knn(bank, queries)
        if set(names) & set(PROBED):
            probe = linear_probe(*bank, *queries, classes=len(self._dataset.classes))
            counts |= {name: probe[k] for name, k in PROBED.items() if name in names}
        return counts

    def _own(self, split: str, features: Features) -> dict[str, float]:
        """What the user's own evaluations say of a split."""
        return {
            f"{split}/{metric_name(name)}": float(part("evaluations", name)(*features))
            for name in self._config.evaluations
        }

    def _untrained_knn(self, test: Split) -> Count:
        model = self._untrained()
        bank = self.represent(model, self._train)
        return self._knn(bank, self.represent(model, test, labelled=False))

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

    def _knn(self, bank: Features, queries: Features) -> Count:
        classes = len(self._dataset.classes)
        wanted = self._config.knn_neighbours or neighbours(len(bank[0]), classes)
        return knn(*bank, *queries, k=min(wanted, len(bank[0])), classes=classes)

    @torch.no_grad()
    def represent(self, model: SimCLR, split: Split, *, labelled: bool = True) -> Features:
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


def on_device(split: Split, device: torch.device) -> Split:
    """The same images and labels on `device`."""
    return Split(split.images.to(device), split.labels.to(device))
