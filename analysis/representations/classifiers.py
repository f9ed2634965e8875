"""The classifiers by which representations are judged: weighted kNN and linear probes, in NumPy.

Many settings of each share what costs: one search for the nearest neighbours, one decomposition of
the covariance, one path from the strongest to the weakest penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import linalg, optimize

from analysis.representations.kept import Features

MOST_RANKED = 5  # classes of a prediction: as many as top-5 asks for
_CELLS = 8_000_000  # similarities at a time: 32 MB
_STEPS = 100  # of L-BFGS, for each penalty; the weaker ones start from the stronger one's end


def knn(
    features: Features, neighbours: Sequence[int], temperatures: Sequence[float]
) -> dict[tuple[int, float], np.ndarray]:
    """Weighted k-nearest-neighbour classification, for every k and t.

    Each of the k nearest training images by cosine similarity votes exp(cos / t) for its class;
    equal votes rank by the class's number.

    Args:
        features: of one run.
        neighbours: numbers k, at most as many as there are training images.
        temperatures: t > 0.

    Returns:
        (k, t) -> (Q, min(5, C)) classes of each test image, the likeliest first.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.4.
    """
    bank, queries = _unit(features.train), _unit(features.test)
    most, classes = max(neighbours), len(features.classes)
    parts: dict[tuple[int, float], list[np.ndarray]] = {
        (k, t): [] for k in neighbours for t in temperatures
    }
    for rows in _chunks(len(queries), max(1, _CELLS // len(bank))):
        similarity = queries[rows] @ bank.T
        nearest, near = _nearest(similarity, most)
        cells = features.train_labels[nearest] + classes * np.arange(len(nearest))[:, None]
        for t in temperatures:
            # Relative to the nearest one's, which changes no rank: exp(1 / t) may be infinite.
            weights = np.exp((near - near[:, :1]) / t)
            votes, begin = np.zeros(len(nearest) * classes), 0
            for k in sorted(neighbours):
                between = slice(begin, k)
                votes += np.bincount(
                    cells[:, between].ravel(), weights[:, between].ravel(), minlength=len(votes)
                )
                begin = k
                parts[k, t].append(ranked(votes.reshape(-1, classes)))
    return {choice: np.concatenate(found) for choice, found in parts.items()}


def ridge(features: Features, penalties: Sequence[float]) -> dict[float, np.ndarray]:
    """Ridge regression on the classes as columns of 0 and 1, in closed form, for every penalty.

    On standardised features it minimises mean squared error plus λ‖W‖².

    Returns:
        λ -> (Q, min(5, C)) classes of each test image, the likeliest first.
    """
    train, test = _standardised(features)
    targets = _one_hot(features)
    offset = targets.mean(axis=0)
    covariance = (train.T @ train / len(train)).astype(np.float64)
    values, vectors = linalg.eigh(covariance)
    shared = vectors.T @ (train.T @ (targets - offset) / len(train))
    projected = test @ vectors.astype(np.float32)
    return {
        penalty: ranked(
            projected @ (shared / (values.clip(min=0) + penalty)[:, None]).astype(np.float32)
            + offset.astype(np.float32)
        )
        for penalty in penalties
    }


def logistic(features: Features, penalties: Sequence[float]) -> dict[float, np.ndarray]:
    """Multinomial logistic regression, for every penalty, from the strongest to the weakest.

    On standardised features it minimises mean cross-entropy plus (λ/2)‖W‖² by at most 100 steps of
    L-BFGS each, starting where the stronger penalty ended.

    Returns:
        λ -> (Q, min(5, C)) classes of each test image, the likeliest first.
    """
    train, test = _standardised(features)
    train, test = (np.hstack([h, np.ones((len(h), 1), np.float32)]) for h in (train, test))
    targets = _one_hot(features).astype(np.float32)
    shape = (train.shape[1], targets.shape[1])
    free = np.ones(shape, np.float32)
    free[-1] = 0  # the intercepts are not penalised

    def objective(flat: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape).astype(np.float32)
        scores = train @ weights
        scores -= scores.max(axis=1, keepdims=True)
        likelihoods = np.exp(scores)
        sums = likelihoods.sum(axis=1, keepdims=True)
        loss = np.log(sums).mean(dtype=np.float64) - (scores * targets).sum(dtype=np.float64) / len(
            train
        )
        likelihoods /= sums
        gradient = train.T @ (likelihoods - targets) / np.float32(len(train))
        gradient += np.float32(penalty) * free * weights
        loss += 0.5 * penalty * float((free * weights**2).sum(dtype=np.float64))
        return float(loss), gradient.ravel().astype(np.float64)

    found, flat = {}, np.zeros(shape).ravel()
    for penalty in sorted(penalties, reverse=True):
        flat = optimize.minimize(
            objective, flat, (penalty,), "L-BFGS-B", jac=True,
            options={"maxiter": _STEPS, "gtol": 1e-4, "maxcor": 10},
        ).x  # fmt: skip
        found[penalty] = ranked(test @ flat.reshape(shape).astype(np.float32))
    return {penalty: found[penalty] for penalty in penalties}


def ranked(scores: np.ndarray) -> np.ndarray:
    """(Q, C) scores -> (Q, min(5, C)) classes, the best first; of equal ones the first class."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :MOST_RANKED]


def _nearest(similarity: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the `most` largest of each row, the largest first, and their values.

    Of equal ones the first columns. Values are partitioned, not positions: in a third of the time.
    """
    edge = np.partition(similarity, -most, axis=1)[:, -most, None]
    chosen = similarity >= edge
    surplus = chosen.sum(axis=1) - most
    for row in np.flatnonzero(surplus):
        chosen[row, np.flatnonzero(similarity[row] == edge[row])[-surplus[row] :]] = False
    columns = np.nonzero(chosen)[1].reshape(-1, most)
    values = np.take_along_axis(similarity, columns, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    columns, values = (np.take_along_axis(part, order, axis=1) for part in (columns, values))
    return columns, values.astype(np.float64)


def _unit(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)


def _standardised(features: Features) -> tuple[np.ndarray, np.ndarray]:
    mean = features.train.mean(axis=0, dtype=np.float64)
    deviation = features.train.std(axis=0, dtype=np.float64)
    # A dead unit has no spread, and what rounding leaves of it is no signal.
    scale = np.where(deviation > 1e-6 * max(deviation.max(), 1e-30), deviation, np.inf)
    return tuple(((h - mean) / scale).astype(np.float32) for h in (features.train, features.test))


def _one_hot(features: Features) -> np.ndarray:
    return np.eye(len(features.classes))[features.train_labels]


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
