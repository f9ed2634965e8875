"""The measures of a representation: weighted kNN, linear probe, alignment and uniformity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

KNN_TEMPERATURE = 0.5  # of the authors' code: weights exp(cos / 0.5)
KNN_NEIGHBOURS = 200  # of the authors' code, on CIFAR-10's 5,000 images per class
PROBE_L2 = 1e-3


@dataclass(frozen=True)
class Count:
    """An accuracy as whole numbers, so that equal accuracies are ties and not almost ties."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """In [0, 1]."""
        return self.correct / self.total


def neighbours(train_images: int, classes: int) -> int:
    """k of the weighted kNN: 200, or a fifth of a class where classes are smaller than 1,000.

    The published k = 200 presumes thousands of images per class. On 120 per class it would
    reach past the class of every query, whatever the representation.
    """
    return max(1, min(KNN_NEIGHBOURS, train_images // (5 * classes)))


def knn(
    bank: Tensor, bank_labels: Tensor, queries: Tensor, labels: Tensor, *, k: int, classes: int
) -> Count:
    """Weighted k-nearest-neighbour accuracy on representations h, top-1.

    Each of the k nearest bank entries by cosine similarity votes exp(cos / 0.5) for its class.

    Args:
        bank: (N, D) representations of labelled training images.
        bank_labels: (N,) integers in [0, classes).
        queries: (Q, D) representations.
        labels: (Q,) integers.
        k: neighbours, at most N.
        classes: number of classes.

    Returns:
        correct queries of Q.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.4, with the preprint's k and temperature.
    """
    bank, queries = F.normalize(bank, dim=1), F.normalize(queries, dim=1)
    correct = torch.zeros((), dtype=torch.long, device=bank.device)
    for rows in torch.arange(len(queries), device=bank.device).split(1024):
        similarity, index = (queries[rows] @ bank.T).topk(k, dim=1)  # (Q, k)
        votes = torch.zeros(len(rows), classes, device=bank.device)
        votes.scatter_add_(1, bank_labels[index], (similarity / KNN_TEMPERATURE).exp())
        correct += (votes.argmax(1) == labels[rows]).sum()
    return Count(int(correct), len(queries))


def linear_probe(
    train: Tensor, train_labels: Tensor, queries: Tensor, labels: Tensor, *, classes: int
) -> dict[int, Count]:
    """Accuracy of a linear classifier on frozen representations h, top-1 and top-5.

    Multinomial logistic regression on standardised features, mean cross-entropy plus
    (1e-3 / 2)·‖W‖², minimised by L-BFGS from zero. Departures: Chuang et al. 2020 train the
    classifier with Adam; this problem is convex, and its optimum needs no seed, no schedule and
    no tuning that could favour an arm.

    Args:
        train: (N, D) representations; train_labels: (N,) integers in [0, classes).
        queries: (Q, D); labels: (Q,).
        classes: number of classes, 2 or more.

    Returns:
        {1: top-1 count, 5: top-5 count}; top-5 of fewer than five classes is all correct.
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
        ranked = (queries @ weight.T + bias).topk(min(5, classes), dim=1).indices
        hits = ranked == labels[:, None]
    return {
        1: Count(int(hits[:, :1].any(1).sum()), len(labels)),
        5: Count(int(hits.any(1).sum()), len(labels)),
    }


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
