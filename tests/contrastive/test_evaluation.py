"""Do kNN, linear probe, alignment and uniformity agree with loops, scikit-learn and theory?"""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from contrastive.training.evaluation import (
    PROBE_L2,
    Count,
    Predictions,
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


def votes_by_hand(bank, bank_labels, queries, k, classes, temperature) -> list[list[float]]:
    """Relative to the greatest possible vote, so that no temperature overflows."""
    every = []
    for query in queries.tolist():
        scored = []
        for row, row_label in zip(bank.tolist(), bank_labels.tolist(), strict=True):
            dot = sum(a * b for a, b in zip(query, row, strict=True))
            scored.append((dot / (math.hypot(*query) * math.hypot(*row)), row_label))
        votes = [0.0] * classes
        for cosine, row_label in sorted(scored, reverse=True)[:k]:
            votes[row_label] += math.exp((cosine - 1) / temperature)
        every.append(votes)
    return every


def top_by_hand(votes, labels, n: int) -> int:
    """Queries with fewer than n classes before their own; of equal votes the lower number wins."""
    correct = 0
    for own, label in zip(votes, labels.tolist(), strict=True):
        before = [v > own[label] or (v == own[label] and c < label) for c, v in enumerate(own)]
        correct += sum(before) < n
    return correct


@pytest.mark.parametrize("temperature", [0.5, 0.1, 0.07, 0.02, 0.004])
@pytest.mark.parametrize("k", [1, 5, 60])
def test_knn_equals_a_loop_over_the_definition(k: int, temperature: float):
    bank, bank_labels = clusters(60)
    queries, labels = clusters(45, seed=1)
    found = knn(bank, bank_labels, queries, labels, k=k, classes=7, temperature=temperature)
    votes = votes_by_hand(bank, bank_labels, queries, k, 7, temperature)
    assert found.top(1) == Count(top_by_hand(votes, labels, 1), 45)
    assert found.top(5) == Count(top_by_hand(votes, labels, 5), 45)
    # Inputs on which a wrong answer would show.
    assert 0.2 < found.top(1).accuracy < found.top(5).accuracy < 1


def test_knn_depends_on_its_temperature():
    # Two neighbours of one class at right angles to the query, one of another class upon it: the
    # two outvote the one, 2·e⁰ > e^{1/t}, from t = 1 / log 2 = 1.44 on.
    bank = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    given = (bank, torch.tensor([0, 0, 1]), torch.tensor([[2.0, 0.0]]), torch.tensor([1]))
    for temperature, correct in ((1.5, 0), (1.4, 1), (0.07, 1), (0.001, 1)):
        found = knn(*given, k=3, classes=2, temperature=temperature)
        assert found.top(1).correct == correct


def test_the_votes_of_a_small_temperature_stay_finite():
    # exp(1 / 0.01) is no float32: both classes would have infinite votes, a tie that class 0 wins.
    bank = torch.tensor([[0.9, 0.1], [1.0, 0.0], [1.0, 0.0]])
    given = (bank, torch.tensor([0, 1, 1]), torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    assert knn(*given, k=3, classes=2, temperature=0.01).top(1) == Count(1, 1)


def test_knn_ignores_the_scale_of_representations():
    bank, bank_labels = clusters(60)
    queries, labels = clusters(45, seed=1)
    scale = torch.linspace(0.1, 9, 60)[:, None]
    options = {"k": 9, "classes": 7, "temperature": 0.5}
    one = knn(bank, bank_labels, queries, labels, **options)
    other = knn(bank * scale, bank_labels, queries * 3, labels, **options)
    assert torch.equal(one.ranked, other.ranked)


def test_top_5_of_fewer_than_five_classes_is_all_correct():
    bank, labels = clusters(30, classes=3)
    found = knn(bank, labels, bank.flip(0), labels, k=1, classes=3, temperature=0.5)
    assert found.top(5) == Count(30, 30)
    assert found.top(1).accuracy < 0.6


def test_the_worst_class_has_the_lowest_accuracy_and_not_the_fewest_hits():
    labels = torch.tensor([0, 0, 0, 0, 1, 3, 3])  # no query of class 2
    ranked = torch.tensor([[0], [0], [0], [1], [2], [3], [0]])
    found = Predictions(ranked, labels)
    assert found.by_class() == {0: Count(3, 4), 1: Count(0, 1), 3: Count(1, 2)}
    assert found.worst_class() == Count(0, 1)
    kept = Predictions(ranked[[0, 1, 2, 3, 5, 6]], labels[[0, 1, 2, 3, 5, 6]])
    assert kept.worst_class() == Count(1, 2)  # 1 hit of 2, and 3 of 4: 0.5 < 0.75


def test_per_class_counts_add_up_to_top_1():
    bank, bank_labels = clusters(60)
    queries, labels = clusters(45, seed=1)
    found = knn(bank, bank_labels, queries, labels, k=9, classes=7, temperature=0.1)
    by_class = found.by_class()
    assert sum(count.correct for count in by_class.values()) == found.top(1).correct
    assert [count.total for count in by_class.values()] == [7, 7, 7, 6, 6, 6, 6]
    assert found.worst_class().accuracy == min(count.accuracy for count in by_class.values())


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
    assert abs(found.top(1).correct - top1) <= 1
    assert abs(found.top(5).correct - top5) <= 1
    assert found.top(1).correct < found.top(5).correct < 200


def test_linear_probe_survives_a_dead_unit_and_few_classes():
    train, labels = clusters(60, classes=3)
    train[:, 2] = 4.0
    found = linear_probe(train, labels, train, labels, classes=3)
    assert found.top(5) == Count(60, 60)
    assert found.top(1).accuracy > 0.6


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
