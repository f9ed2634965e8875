"""The measures of a representation: weighted kNN, linear probe, alignment and uniformity."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import Tensor

KNN_NEIGHBOURS = 200  # of the authors' code, on CIFAR-10's 5,000 images per class
PROBE_L2 = 1e-3
SMALL_TEMPERATURE = 0.03  # below, exp(1 / t) nears float32's end: votes relative to the nearest's
MOST_RANKED = 5  # classes of a prediction: as many as top-5 asks for


@dataclass(frozen=True)
class Count:
    """An accuracy as whole numbers, so that equal accuracies are ties and not almost ties."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """In [0, 1]."""
        return self.correct / self.total

    @property
    def exact(self) -> Fraction:
        """The accuracy without rounding: 1/2 equals 2/4."""
        return Fraction(self.correct, self.total)


@dataclass(frozen=True)
class Predictions:
    """The classes that a classifier finds likeliest, beside the true ones.

    Attributes:
        ranked: (Q, min(5, C)) classes of each query, the likeliest first.
        labels: (Q,) true classes in [0, C).

    Example:
        >>> found = Predictions(torch.tensor([[0, 1], [0, 1], [1, 0]]), torch.tensor([0, 1, 1]))
        >>> found.top(1), found.top(5)
        (Count(correct=2, total=3), Count(correct=3, total=3))
        >>> found.by_class(), found.worst_class()
        ({0: Count(correct=1, total=1), 1: Count(correct=1, total=2)}, Count(correct=1, total=2))
    """

    ranked: Tensor
    labels: Tensor

    def top(self, n: int) -> Count:
        """Queries whose class is among the n likeliest; all of them where n reaches C."""
        hits = (self.ranked[:, :n] == self.labels[:, None]).any(1)
        return Count(int(hits.sum()), len(self.labels))

    def by_class(self) -> dict[int, Count]:
        """Top-1 count of each class that a query has."""
        hits = self.ranked[:, 0] == self.labels
        total, correct = (
            torch.bincount(part).tolist() for part in (self.labels, self.labels[hits])
        )
        correct += [0] * (len(total) - len(correct))
        return {c: Count(correct[c], n) for c, n in enumerate(total) if n}

    def worst_class(self) -> Count:
        """Top-1 count of the class with the lowest accuracy; of several the first."""
        return min(self.by_class().values(), key=lambda count: count.exact)


def neighbours(train_images: int, classes: int) -> int:
    """k of the weighted kNN: 200, or a fifth of a class where classes are smaller than 1,000.

    The published k = 200 presumes thousands of images per class. On 120 per class it would
    reach past the class of every query, whatever the representation.
    """
    return max(1, min(KNN_NEIGHBOURS, train_images // (5 * classes)))


def knn(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    labels: Tensor,
    *,
    k: int,
    temperature: float,
    classes: int,
) -> Predictions:
    """Weighted k-nearest-neighbour classification of representations h.

    Each of the k nearest bank entries by cosine similarity votes exp(cos / t) for its class. Equal
    votes, such as none, rank by the class's number.

    Args:
        bank: (N, D) representations of labelled training images.
        bank_labels: (N,) integers in [0, classes).
        queries: (Q, D) representations.
        labels: (Q,) integers.
        k: neighbours, at most N.
        temperature: t > 0; 0.5 in the preprint's code, 0.07 or 0.1 in libraries.
        classes: number of classes.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.4.
    """
    bank, queries = F.normalize(bank, dim=1), F.normalize(queries, dim=1)
    parts = []
    for rows in torch.arange(len(queries), device=bank.device).split(1024):
        similarity, index = (queries[rows] @ bank.T).topk(k, dim=1)  # (Q, k), nearest first
        if temperature < SMALL_TEMPERATURE:
            similarity = similarity - similarity[:, :1]
        votes = torch.zeros(len(rows), classes, device=bank.device)
        votes.scatter_add_(1, bank_labels[index], (similarity / temperature).exp())
        # Stable, so that the first is what argmax gives.
        ranked = votes.sort(dim=1, descending=True, stable=True).indices
        parts.append(ranked[:, :MOST_RANKED])
    return Predictions(torch.cat(parts), labels)


def linear_probe(
    train: Tensor, train_labels: Tensor, queries: Tensor, labels: Tensor, *, classes: int
) -> Predictions:
    """A linear classifier on frozen representations h.

    Multinomial logistic regression on standardised features, mean cross-entropy plus
    (1e-3 / 2)·‖W‖², minimised by L-BFGS from zero. Departures: Chuang et al. 2020 train the
    classifier with Adam; this problem is convex, and its optimum needs no seed, no schedule and
    no tuning that could favour an arm.

    Args:
        train: (N, D) representations; train_labels: (N,) integers in [0, classes).
        queries: (Q, D); labels: (Q,).
        classes: number of classes, 2 or more.
    """
    mean, std = train.mean(0), train.std(0).clamp(min=1e-6)  # a dead unit has no spread
    train, queries = (train - mean) / std, (queries - mean) / std
    weight = torch.zeros(classes, train.shape[1], device=train.device, requires_grad=True)
    bias = torch.zeros(classes, device=train.device, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weight, bias],
        max_iter=200,
        tolerance_grad=1e-5,
        tolerance_change=1e-9,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(train @ weight.T + bias, train_labels)
        loss = loss + 0.5 * PROBE_L2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(objective)
    with torch.no_grad():
        scores = queries @ weight.T + bias
        return Predictions(scores.topk(min(MOST_RANKED, classes), dim=1).indices, labels)


def alignment(first: Tensor, second: Tensor) -> float:
    """Mean squared distance of positive pairs on the sphere, in [0, 4]; 0 is perfect.

    Args:
        first, second: (B, D) embeddings of two views of the same B images; scaled here.

    Source: Wang & Isola 2020, arXiv:2005.10242, Eq. 8 with α = 2.
    """
    first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
    return float((first - second).square().sum(1).mean())


def uniformity(embeddings: Tensor) -> float:
    """log of the mean Gaussian potential exp(-2·d²) over distinct pairs; at most 0, low is uniform.

    Args:
        embeddings: (B, D), B >= 2; scaled here.

    Source: Wang & Isola 2020, arXiv:2005.10242, Eq. 9 with t = 2.
    """
    embeddings = F.normalize(embeddings, dim=1)
    total = embeddings.new_zeros((), dtype=torch.float64)
    for rows in embeddings.split(1024):
        squared = (2 - 2 * rows @ embeddings.T).clamp(min=0)
        total += (-2 * squared).exp().sum(dtype=torch.float64)
    count = len(embeddings)
    return float(((total - count) / (count * (count - 1))).clamp(min=1e-300).log())
