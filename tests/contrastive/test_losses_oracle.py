"""Every loss equals its equation, summed in plain Python one number after the other."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import pytest
import torch

from contrastive.losses import LOSSES

T, D = torch.float64, 5


def batch(n_views: int, images: int, spread: float = 1.0) -> torch.Tensor:
    """Embeddings whose views agree for some images and oppose each other for others.

    So that the floors act for some anchors and not for others; that of `debiased_pos` only where
    the images are much alike and the positive is not, with a `spread` of 0.05.
    """
    g = torch.Generator().manual_seed(0)
    centre = torch.ones(D, dtype=T) * (spread < 1)
    base = centre + spread * torch.randn(images, D, generator=g, dtype=T)
    views = base + 0.3 * spread * torch.randn(n_views, images, D, generator=g, dtype=T)
    views[1, ::3] = 0.7 * torch.randn(views[1, ::3].shape, generator=g, dtype=T) - views[1, ::3]
    return 2.5 * views


LABELS = {
    2: [0, 1],
    3: [0, 0, 1],
    4: [0, -1, 0, -1],
    6: [2, 0, 2, -1, 0, -1],
}


def unit(x: list[float]) -> list[float]:
    length = math.sqrt(sum(v * v for v in x))
    return [v / length for v in x]


def dot(x: list[float], y: list[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


class Anchor(NamedTuple):
    """The similarities h around one anchor, as numbers."""

    pos: float
    positives: list[float]
    neg: list[float]  # the negatives that are left
    every: list[float]  # those before any was dropped
    own: float | None  # h(anchor, anchor), where the anchor is among the views that it meets


def oracle(views, anchor_loss, *, t, aggregation, labels=None, negatives="both", normalise=True):
    """Mean over anchors; `anchor_loss` takes an `Anchor`."""
    z = [[unit(x) if normalise else x for x in view] for view in views.tolist()]
    n_views, images = len(z), len(z[0])

    def h(x, y):
        return math.exp(dot(x, y) / t)

    if aggregation == "pos_grouping":
        pairs = [(0, 1), (1, 0)]
    else:
        pairs = list(itertools.permutations(range(n_views), 2))
    found = []
    for (i, j), b in itertools.product(pairs, range(images)):
        anchor, neg, every = z[i][b], [], []
        for c in range(images):
            if c == b:
                continue
            met = [h(anchor, z[j][c])] + [h(anchor, z[i][c])] * (negatives == "both")
            every += met
            if not (labels and labels[c] == labels[b] != -1):
                neg += met
        if not neg:
            continue
        pos = h(anchor, z[j][b])
        others = [j, *range(2, n_views)] if aggregation == "pos_grouping" else [j]
        positives = [h(anchor, z[k][b]) for k in others]
        own = h(anchor, anchor) if negatives == "both" else None
        found.append(anchor_loss(Anchor(pos, positives, neg, every, own)))
    return sum(found) / len(found)


def mean(values):
    return sum(values) / len(values)


def of_contrastive(a):
    return -math.log(a.pos / (a.pos + sum(a.neg)))


def of_debiased_neg(t, tau, floor, beta=0.0):
    def loss(a):
        n = len(a.neg)
        w = [v**beta for v in a.neg]
        s = sum(x * y for x, y in zip(w, a.neg, strict=True)) / (sum(w) / n)
        v = [p**beta for p in a.positives]
        p_bar = sum(x * y for x, y in zip(v, a.positives, strict=True)) / sum(v)
        g = (s / n - tau * p_bar) / (1 - tau)
        if floor == "positive":
            least = 1e-6 * s / n / (1 - tau) if tau else 0
        else:
            least = math.exp(-1 / t)
        if g <= least and floor == "biased":
            return of_contrastive(a)
        return -math.log(a.pos / (a.pos + n * max(g, least)))

    return loss


def of_debiased_pos(t, tau, floor, formula="published"):
    def published(a):
        n = len(a.neg)
        terms = [*a.every, mean(a.positives)] + ([] if a.own is None else [a.own])
        numerator = mean(terms) - (1 - tau) * mean(a.neg)
        least = tau * math.exp(-1 / t)
        if floor == "positive":
            least = 1e-6 * mean(terms)
        if numerator <= least:
            if floor == "biased":
                return of_contrastive(a)
            numerator = least
        return -math.log(numerator / (numerator + n * tau * mean(a.neg)))

    def notebook(a):
        full = sum(a.every) + a.pos + (a.own or 0)
        w, s = len(a.every), sum(a.neg)
        return -math.log((full - (1 - tau) * s) / (full + (w * tau - (1 - tau)) * s))

    return {"published": published, "notebook": notebook}[formula]


def of_debiased_both(t, tau, floor, alpha, formula="published"):
    neg_loss, pos_loss = of_debiased_neg(t, tau, floor), of_debiased_pos(t, tau, floor, formula)
    return lambda a: alpha * neg_loss(a) + (1 - alpha) * pos_loss(a)


SIZES = [(2, 2, 1.0), (2, 6, 1.0), (2, 6, 0.05), (3, 4, 1.0), (3, 4, 0.05), (4, 3, 0.05)]


def check(
    name,
    sizes,
    make,
    t,
    aggregation,
    false_negatives,
    *,
    negatives="both",
    normalise=True,
    **options,
):
    views, labels = batch(*sizes), LABELS[sizes[1]]
    if not normalise:
        views = views / 2.5
    drop = false_negatives == "drop"
    shared = {"aggregation": aggregation, "negatives": negatives, "normalise": normalise}
    expected = oracle(views, make(), t=t, labels=labels if drop else None, **shared)
    found = LOSSES[name](
        views,
        temperature=t,
        labels=torch.tensor(labels),
        false_negatives=false_negatives,
        **shared,
        **options,
    )
    # Where a floor acts close by, the last digits of a difference are those of its terms.
    assert found.item() == pytest.approx(expected, rel=1e-8, abs=1e-12)


def everywhere(test):
    """At every size, temperature, aggregation and treatment of false negatives."""
    for mark in (
        pytest.mark.parametrize("t", [0.1, 0.5, 2.0]),
        pytest.mark.parametrize("aggregation", ["pos_grouping", "loss_combination"]),
        pytest.mark.parametrize("false_negatives", ["keep", "drop"]),
        pytest.mark.parametrize("sizes", SIZES, ids=str),
    ):
        test = mark(test)
    return test


floors = pytest.mark.parametrize("floor", ["clamp", "biased", "positive"])


@everywhere
def test_contrastive(sizes, t, aggregation, false_negatives):
    check("contrastive", sizes, lambda: of_contrastive, t, aggregation, false_negatives)


@everywhere
@floors
@pytest.mark.parametrize("tau", [0.0, 0.1, 0.4])
def test_debiased_neg(sizes, t, aggregation, false_negatives, tau, floor):
    options = {"tau_plus": tau, "floor": floor}
    make = lambda: of_debiased_neg(t, tau, floor)  # noqa: E731
    check("debiased_neg", sizes, make, t, aggregation, false_negatives, **options)


@everywhere
@floors
@pytest.mark.parametrize("tau", [0.01, 0.1, 0.25, 0.6])
def test_debiased_pos(sizes, t, aggregation, false_negatives, tau, floor):
    options = {"tau_plus": tau, "floor": floor}
    make = lambda: of_debiased_pos(t, tau, floor)  # noqa: E731
    check("debiased_pos", sizes, make, t, aggregation, false_negatives, **options)


@everywhere
@floors
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_debiased_both(sizes, t, aggregation, false_negatives, alpha, floor):
    options = {"tau_plus": 0.2, "alpha": alpha, "floor": floor}
    make = lambda: of_debiased_both(t, 0.2, floor, alpha)  # noqa: E731
    check("debiased_both", sizes, make, t, aggregation, false_negatives, **options)


@everywhere
@floors
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.5])
def test_hard_neg(sizes, t, aggregation, false_negatives, beta, floor):
    options = {"tau_plus": 0.2, "beta": beta, "floor": floor}
    make = lambda: of_debiased_neg(t, 0.2, floor, beta)  # noqa: E731
    check("hard_neg", sizes, make, t, aggregation, false_negatives, **options)


@pytest.mark.parametrize("false_negatives", ["keep", "drop"])
@pytest.mark.parametrize("name", ["debiased_neg", "debiased_pos", "hard_neg"])
def test_these_batches_reach_the_floors(name, false_negatives):
    options = {"temperature": 0.5, "tau_plus": 0.05 if name == "debiased_pos" else 0.4}
    options |= {"labels": torch.tensor(LABELS[6]), "false_negatives": false_negatives}
    views = batch(2, 6, 0.05 if name == "debiased_pos" else 1.0)
    clamped, biased = (LOSSES[name](views, floor=f, **options) for f in ("clamp", "biased"))
    assert abs(clamped - biased) > 1e-3


@pytest.mark.parametrize("false_negatives", ["keep", "drop"])
@pytest.mark.parametrize("aggregation", ["pos_grouping", "loss_combination"])
@pytest.mark.parametrize("formula", ["published", "notebook"])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("negatives", ["both", "across"])
@pytest.mark.parametrize("name", ["contrastive", "debiased_neg", "debiased_pos", "debiased_both"])
def test_two_encoders_no_scaling_and_the_notebook(
    name, negatives, normalise, formula, aggregation, false_negatives
):
    t, tau, floor = 0.8, 0.2, "positive"
    make, options = {
        "contrastive": (lambda: of_contrastive, {}),
        "debiased_neg": (lambda: of_debiased_neg(t, tau, floor), {"tau_plus": tau, "floor": floor}),
        "debiased_pos": (
            lambda: of_debiased_pos(t, tau, floor, formula),
            {"tau_plus": tau, "floor": floor, "formula": formula},
        ),
        "debiased_both": (
            lambda: of_debiased_both(t, tau, floor, 0.3, formula),
            {"tau_plus": tau, "floor": floor, "formula": formula, "alpha": 0.3},
        ),
    }[name]
    for sizes in ((3, 6, 1.0), (2, 6, 0.05)):
        check(
            name,
            sizes,
            make,
            t,
            aggregation,
            false_negatives,
            negatives=negatives,
            normalise=normalise,
            **options,
        )


def of_supcon(views, labels, t):
    z = [(unit(x), b) for view in views.tolist() for b, x in enumerate(view)]
    found = []
    for i, (anchor, b) in enumerate(z):
        others = [(dot(anchor, y) / t, c) for k, (y, c) in enumerate(z) if k != i]
        log_all = math.log(sum(math.exp(s) for s, _ in others))
        positives = [s for s, c in others if c == b or labels[c] == labels[b] != -1]
        found.append(-sum(s - log_all for s in positives) / len(positives))
    return sum(found) / len(found)


def of_triplet(views, labels, margin):
    z = [(unit(x), b) for view in views.tolist() for b, x in enumerate(view)]

    def distance(x, y):
        return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))

    found = []
    for i, (anchor, b) in enumerate(z):
        same = [c == b or labels[c] == labels[b] != -1 for _, c in z]
        positives = [distance(anchor, y) for k, (y, _) in enumerate(z) if same[k] and k != i]
        negatives = [distance(anchor, y) for k, (y, _) in enumerate(z) if not same[k]]
        if not negatives:
            continue
        for p in positives:
            n = min((v for v in negatives if v > p), default=max(negatives))
            found.append(max(0.0, p - n + margin))
    return sum(found) / len(found)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("t", [0.1, 0.5, 2.0])
def test_supcon(sizes, t):
    views, labels = batch(*sizes), LABELS[sizes[1]]
    found = LOSSES["supcon"](views, temperature=t, labels=torch.tensor(labels))
    assert found.item() == pytest.approx(of_supcon(views, labels, t), rel=1e-9)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("margin", [0.05, 0.2, 1.0])
def test_triplet(sizes, margin):
    views, labels = batch(*sizes), LABELS[sizes[1]]
    found = LOSSES["triplet"](views, labels=torch.tensor(labels), margin=margin)
    assert found.item() == pytest.approx(of_triplet(views, labels, margin), rel=1e-9)
