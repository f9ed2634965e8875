"""kNN and linear probes against plain loops, direct solutions and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from kept_files import features, knn_by_loops
from sklearn.linear_model import LogisticRegression

from analysis.representations import classifiers
from analysis.representations.kept import Features

DATA = features(1, spread=0.8)


def standardised(found: Features) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = found.train.mean(0), found.train.std(0)
    return (found.train - mean) / deviation, (found.test - mean) / deviation


@pytest.mark.parametrize("cells", [8_000_000, 100])
def test_knn_is_that_of_a_plain_loop_for_every_k_and_t(monkeypatch, cells: int):
    monkeypatch.setattr(classifiers, "_CELLS", cells)  # in one piece, and image by image
    found = classifiers.knn(DATA, (1, 4, 60), (0.07, 0.5))
    assert set(found) == {(k, t) for k in (1, 4, 60) for t in (0.07, 0.5)}
    for (k, t), ranked in found.items():
        assert ranked.tolist() == knn_by_loops(DATA, k, t)
    assert len({ranked[:, 0].tobytes() for ranked in found.values()}) > 2  # they do differ


@pytest.mark.parametrize("most", [1, 3, 7])
def test_of_equally_near_images_the_first_count(most: int):
    similarity = np.random.default_rng(1).integers(0, 3, size=(40, 7)).astype(np.float32)
    columns, values = classifiers._nearest(similarity, most)
    for row, found in zip(similarity.tolist(), columns.tolist(), strict=True):
        assert found == sorted(range(7), key=lambda i: (-row[i], i))[:most]
    assert np.array_equal(values, np.take_along_axis(similarity, columns, axis=1))


def test_a_small_temperature_leaves_no_infinite_votes():
    with np.errstate(all="raise", under="ignore"):
        found = classifiers.knn(DATA, (4,), (1e-3,))[4, 1e-3]
    assert found[:, 0].tolist() == [row[0] for row in knn_by_loops(DATA, 1, 1.0)]


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_ridge_is_the_direct_solution(penalty: float):
    train, test = (h.astype(np.float64) for h in standardised(DATA))
    targets = np.eye(3)[DATA.train_labels]
    gram = train.T @ train / len(train) + penalty * np.eye(5)
    weights = np.linalg.solve(gram, train.T @ (targets - targets.mean(0)) / len(train))
    scores = test @ weights + targets.mean(0)
    found = classifiers.ridge(DATA, (penalty, 10.0))[penalty]
    assert found.tolist() == np.argsort(-scores, axis=1).tolist()


@pytest.mark.parametrize("penalty", [1e-3, 1e-1])
def test_the_logistic_probe_is_scikit_learns(penalty: float):
    train, test = standardised(DATA)
    inverse = 1 / (penalty * len(train))  # its C weighs the summed loss
    known = LogisticRegression(C=inverse, max_iter=5000, tol=1e-8).fit(train, DATA.train_labels)
    found = classifiers.logistic(DATA, (penalty, 1.0))[penalty]
    assert found[:, 0].tolist() == known.predict(test).tolist()


def test_representations_without_any_spread_are_classified_all_the_same():
    flat = Features(
        np.ones((6, 4), np.float32), np.arange(6) % 3, np.ones((3, 4), np.float32),
        np.arange(3), ("a", "b", "c"), (6, 3),
    )  # fmt: skip
    for found in (
        classifiers.knn(flat, (2,), (0.5,)),
        classifiers.ridge(flat, (1e-3,)),
        classifiers.logistic(flat, (1e-3,)),
    ):
        (ranked,) = found.values()
        assert ranked.shape == (3, 3)
        assert len(np.unique(ranked[:, 0])) == 1
