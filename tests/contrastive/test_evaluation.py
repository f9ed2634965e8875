"""Do kNN, linear probe, alignment and uniformity agree with loops, scikit-learn and theory?"""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from contrastive.training.evaluation import (
    PROBE_L2,
    Count,
    alignment,
    knn,
    linear_probe,
    neighbours,
    uniformity,
)


def clusters(count: int, classes: int = 7, width: int = 6, seed: int = 0, spread: float = 1.6):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, width, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(count) % classes
    return centres[labels] + spread * torch.randn(count, width, generator=generator), labels


def knn_by_hand(bank, bank_labels, queries, labels, k, classes) -> int:
    correct = 0
    for query, label in zip(queries.tolist(), labels.tolist(), strict=True):
        scored = []
        for row, row_label in zip(bank.tolist(), bank_labels.tolist(), strict=True):
            dot = sum(a * b for a, b in zip(query, row, strict=True))
            scored.append((dot / (math.hypot(*query) * math.hypot(*row)), row_label))
        votes = [0.0] * classes
        for cosine, row_label in sorted(scored, reverse=True)[:k]:
            votes[row_label] += math.exp(cosine / 0.5)
        correct += max(range(classes), key=votes.__getitem__) == label
    return correct


@pytest.mark.parametrize("k", [1, 5, 60])
def test_knn_equals_a_loop_over_the_definition(k: int):
    bank, bank_labels = clusters(60)
    queries, labels = clusters(45, seed=1)
    count = knn(bank, bank_labels, queries, labels, k=k, classes=7)
    assert count == Count(knn_by_hand(bank, bank_labels, queries, labels, k, 7), 45)
    assert 0.2 < count.accuracy < 0.98  # inputs on which a wrong answer would show


def test_knn_ignores_the_scale_of_representations():
    bank, bank_labels = clusters(60)
    queries, labels = clusters(45, seed=1)
    scale = torch.linspace(0.1, 9, 60)[:, None]
    assert knn(bank, bank_labels, queries, labels, k=9, classes=7) == knn(
        bank * scale, bank_labels, queries * 3, labels, k=9, classes=7
    )


def test_the_published_k_shrinks_with_small_classes_only():
    assert neighbours(45_000, 10) == 200
    assert neighbours(10_000, 10) == 200
    assert neighbours(1197, 10) == 23
    assert neighbours(3, 10) == 1


def test_linear_probe_finds_scikit_learns_optimum():
    train, train_labels = clusters(300)
    queries, labels = clusters(200, seed=1)
    found = linear_probe(train, train_labels, queries, labels, classes=7)
    mean, std = train.mean(0), train.std(0)
    # scikit-learn minimises C·Σ loss + ‖W‖²/2: the same problem for C = 1 / (N·λ).
    reference = LogisticRegression(C=1 / (300 * PROBE_L2), max_iter=5000, tol=1e-8)
    reference.fit(((train - mean) / std).numpy(), train_labels.numpy())
    scores = torch.from_numpy(reference.decision_function(((queries - mean) / std).numpy()))
    top1 = int((scores.argmax(1) == labels).sum())
    top5 = int((scores.topk(5, 1).indices == labels[:, None]).any(1).sum())
    assert abs(found[1].correct - top1) <= 1
    assert abs(found[5].correct - top5) <= 1
    assert found[1].correct < found[5].correct < 200


def test_linear_probe_survives_a_dead_unit_and_few_classes():
    train, labels = clusters(60, classes=3)
    train[:, 2] = 4.0
    found = linear_probe(train, labels, train, labels, classes=3)
    assert found[5] == Count(60, 60)
    assert found[1].accuracy > 0.6


def test_alignment_of_known_angles():
    first = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    assert alignment(first, first) == 0
    assert alignment(first, -first) == pytest.approx(4)
    assert alignment(first, first.flip(1)) == pytest.approx(2)  # right angles: distance² is 2


def test_uniformity_of_known_arrangements():
    assert uniformity(torch.ones(5, 3)) == pytest.approx(0, abs=1e-5)
    square = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    # Of an image's three partners two are at distance² 2 and one at 4.
    expected = math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
    assert uniformity(square) == pytest.approx(expected, rel=1e-5)
    assert uniformity(7 * square) == pytest.approx(expected, rel=1e-5)
