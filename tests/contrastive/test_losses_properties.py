"""The identities of the losses, what must not change them, and numbers that must stay finite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from contrastive.losses import LOSSES, accepted
from contrastive.losses.terms.similarities import _with_maximum, similarities

PAIRWISE = ["contrastive", "debiased_neg", "debiased_pos", "debiased_both", "hard_neg"]
ALL = [*PAIRWISE, "supcon", "triplet"]
CONFIGURATIONS = [
    (name, {"aggregation": a, "false_negatives": f})
    for name in PAIRWISE
    for a in ("pos_grouping", "loss_combination")
    for f in ("keep", "drop")
]
CONFIGURATIONS += [
    ("debiased_both", {"negatives": "across", "false_negatives": "drop"}),
    ("debiased_pos", {"formula": "notebook"}),
    ("debiased_pos", {"formula": "notebook", "false_negatives": "drop"}),
    ("supcon", {}),
    ("triplet", {}),
]
every_loss = pytest.mark.parametrize(
    ("name", "options"), CONFIGURATIONS, ids=["-".join([n, *o.values()]) for n, o in CONFIGURATIONS]
)


def call(name, views, *, temperature=0.5, **options):
    """The loss with random labels, one image in seven unlabelled, where it takes any."""
    options |= {"temperature": temperature, "labels": labels_of(views.shape[1])}
    return LOSSES[name](views, **{k: v for k, v in options.items() if k in accepted(name)})


def labels_of(images):
    """0, 1, 2, 0, 1, 2, -1, …"""
    return torch.tensor([-1 if b % 7 == 6 else b % 7 % 3 for b in range(images)])


def random_views(n_views=3, images=8, dim=6, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    base = torch.randn(images, dim, generator=g, dtype=dtype)
    return base + 0.5 * torch.randn(n_views, images, dim, generator=g, dtype=dtype)


def close(x, y, **tolerance):
    torch.testing.assert_close(x, y, **({"rtol": 1e-10, "atol": 1e-10} | tolerance))


# Identities


def test_without_correction_debiased_neg_is_contrastive_off_its_floor():
    views = random_views()
    close(call("debiased_neg", views, tau_plus=0.0), call("contrastive", views))


def test_without_correction_the_floor_still_acts():
    views = torch.eye(2).repeat(2, 1, 1)
    views[:, 1] = -views[:, 0]  # S/N is e^{-1/t}, the floor itself, from either side of rounding
    close(
        call("debiased_neg", views, tau_plus=0.0), call("contrastive", views), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("floor", ["clamp", "biased"])
def test_without_concentration_hard_neg_is_debiased_neg(floor):
    views = random_views()
    close(call("hard_neg", views, beta=0.0, floor=floor), call("debiased_neg", views, floor=floor))


@pytest.mark.parametrize("floor", ["clamp", "biased"])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_debiased_both_is_the_weighted_mean_of_the_two(alpha, floor):
    views = random_views()
    neg, pos = (call(f"debiased_{kind}", views, floor=floor) for kind in ("neg", "pos"))
    both = call("debiased_both", views, alpha=alpha, floor=floor)
    close(both, alpha * neg + (1 - alpha) * pos)


@pytest.mark.parametrize("name", PAIRWISE)
def test_with_two_views_both_aggregations_agree(name):
    views = random_views(n_views=2)
    close(
        call(name, views, aggregation="pos_grouping"),
        call(name, views, aggregation="loss_combination"),
    )


@pytest.mark.parametrize("name", PAIRWISE)
def test_without_shared_labels_there_is_nothing_to_drop(name):
    views = random_views()
    for labels in (torch.arange(8), torch.full((8,), -1)):
        dropped = LOSSES[name](views, temperature=0.5, labels=labels, false_negatives="drop")
        close(dropped, LOSSES[name](views, temperature=0.5))


@pytest.mark.parametrize("name", PAIRWISE)
def test_loss_combination_is_the_mean_over_pairs_of_views(name):
    views = random_views(n_views=4)
    pairs = [call(name, views[[i, j]]) for i in range(4) for j in range(i)]
    close(call(name, views, aggregation="loss_combination"), torch.stack(pairs).mean())


def test_supcon_without_shared_labels_is_contrastive():
    views = random_views(n_views=2)
    supcon = LOSSES["supcon"](views, temperature=0.5, labels=torch.arange(8))
    close(supcon, call("contrastive", views))


def test_collapsed_embeddings_have_the_loss_of_chance():
    views = torch.ones(3, 8, 4, dtype=torch.float64)
    for a in ("pos_grouping", "loss_combination"):
        close(call("contrastive", views, aggregation=a).item(), math.log(2 * 8 - 1))
    close(call("supcon", views).item(), math.log(3 * 8 - 1))
    close(call("triplet", views, margin=0.3).item(), 0.3)


def test_debiased_pos_loses_sight_of_its_positives_as_n_grows():
    """P and τ⁻ S/N share their samples, so n tends to τ⁺ S/N and the loss to log(1 + N)."""
    sizes, gaps = [2**k for k in range(4, 10)], []
    for images in sizes:
        views = F.normalize(random_views(2, images, 16), dim=-1)
        loss = call("debiased_pos", views, temperature=1.0, tau_plus=0.5)
        gaps.append(abs(math.log(1 + 2 * images - 2) - loss.item()))
    slope = (math.log(gaps[-1]) - math.log(gaps[2])) / (math.log(sizes[-1]) - math.log(sizes[2]))
    assert slope == pytest.approx(-1, abs=0.1)


# Invariances


@every_loss
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**16), data=st.data())
def test_order_side_and_scale_do_not_matter(name, options, seed, data):
    views = random_views(seed=seed)
    expected = call(name, views, **options)
    order = torch.tensor(data.draw(st.permutations(range(8))))
    labels = {"labels": labels_of(8)[order], "temperature": 0.5} | options
    taken = {k: v for k, v in labels.items() if k in accepted(name)}
    close(LOSSES[name](views[:, order], **taken), expected)
    close(call(name, views[[1, 0, 2]], **options), expected)
    scale = torch.tensor(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=8, max_size=8)))
    close(call(name, views * scale.double()[:, None], **options), expected)
    rotation = torch.linalg.qr(random_views(1, 6, 6, seed)[0]).Q
    close(call(name, views @ rotation, **options), expected)


@pytest.mark.parametrize("formula", ["published", "notebook"])
@pytest.mark.parametrize("false_negatives", ["keep", "drop"])
@pytest.mark.parametrize("name", PAIRWISE)
def test_unscaled_embeddings_and_the_temperature_scale_together(name, false_negatives, formula):
    views = random_views()
    options = {
        "normalise": False,
        "floor": "positive",
        "false_negatives": false_negatives,
        "formula": formula,
    }
    expected = call(name, views, temperature=0.5, **options)
    close(call(name, 3 * views, temperature=4.5, **options), expected)
    unit = F.normalize(views, dim=-1)
    scaled = call(name, views, temperature=0.5, **options | {"normalise": True})
    close(call(name, unit, temperature=0.5, **options), scaled)


def test_unscaled_embeddings_far_beyond_float32s_exponentials_stay_finite():
    for name in PAIRWISE:
        views = (100 * random_views(dtype=torch.float32)).requires_grad_()
        loss = call(name, views, temperature=1.0, normalise=False, floor="positive")
        assert_finite(loss, views, name)


def test_contrastive_across_two_views_is_the_symmetric_cross_entropy():
    """Of CLIP and CMC: row and column softmax of one matrix between the two views."""
    views = random_views(n_views=2)
    z = F.normalize(views, dim=-1) / 0.5**0.5
    logits = z[0] @ z[1].T
    images = torch.arange(8)
    rows = F.cross_entropy(logits, images) + F.cross_entropy(logits.T, images)
    close(call("contrastive", views, negatives="across"), rows / 2)


@pytest.mark.parametrize("name", PAIRWISE)
def test_the_default_floor_is_refused_for_unscaled_embeddings(name):
    if "floor" not in accepted(name):
        return
    for floor in ("clamp", "biased"):
        with pytest.raises(ValueError, match="allowed: floor 'positive', or normalise True"):
            call(name, random_views(), normalise=False, floor=floor)


# Gradients


@pytest.mark.slow
@every_loss
@pytest.mark.parametrize("floor", ["clamp", "biased", "positive"])
@pytest.mark.parametrize("temperature", [0.3, 0.012])  # the second takes the path with a maximum
def test_gradient(name, options, floor, temperature):
    if floor != "clamp" and "floor" not in accepted(name):
        pytest.skip("has no floor")
    views = random_views(3, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: call(name, v, temperature=temperature, floor=floor, beta=0.7, **options), (views,)
    )


def test_gradient_in_steps_of_rows(monkeypatch):
    monkeypatch.setattr("contrastive.losses.terms.similarities.CPU_SCRATCH", 3 * 3 * 5)
    views = random_views(3, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: call("hard_neg", v, beta=0.7, aggregation="loss_combination"), (views,)
    )


def test_both_ways_to_sum_exponentials_agree():
    z = F.normalize(random_views(), dim=-1)
    left_out = torch.eye(8, dtype=torch.bool)
    left_out[0, 3] = left_out[3, 0] = True
    for masks in ((None, None), (left_out, left_out), (None, left_out), (left_out, None)):
        bare = similarities(z, temperature=0.1, powers=(0.5, 1.0), left_out=masks)
        safe = _with_maximum(z, 10.0, (0.5, 1.0), masks)
        close(bare[0], safe[0])
        for x, y in zip(bare[1], safe[1], strict=True):
            close(x, y)


def test_the_graph_can_be_kept_and_used_again():
    views = random_views().requires_grad_()
    loss = call("debiased_neg", views)
    (first,) = torch.autograd.grad(loss, views, retain_graph=True)
    (second,) = torch.autograd.grad(loss, views)
    assert torch.equal(first, second)


def test_inputs_are_left_alone():
    views = random_views()
    labels, before = labels_of(8), views.clone()
    for name in ALL:
        call(name, views)
    assert torch.equal(views, before)
    assert torch.equal(labels, labels_of(8))


# Finite numbers


def extreme(kind, images, dtype=torch.float32):
    views = random_views(2, images, 16, dtype=torch.float32)
    if kind == "collapsed":
        views = torch.ones_like(views)
    elif kind == "opposite views":
        views[1] = -views[0]
    elif kind == "opposite images":
        views[:, ::2], views[:, 1::2] = views[:, :1].clone(), -views[:, :1].clone()
    elif kind == "equal views":
        views[1] = views[0]
    elif kind == "zero":
        views = torch.zeros_like(views)
    return views.to(dtype).requires_grad_()


def assert_finite(loss, views, where):
    loss.backward()
    assert loss.isfinite(), where
    assert views.grad.isfinite().all(), where


KINDS = ["random", "collapsed", "opposite views", "opposite images", "equal views"]


@every_loss
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    temperature=st.floats(0.02, 10),
    kind=st.sampled_from([*KINDS, "zero"]),
    tau_plus=st.floats(0.001, 0.99),
    beta=st.floats(0, 5),  # 1e-300 included, which is 0 in float32
    floor=st.sampled_from(["clamp", "biased", "positive"]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    autocast=st.sampled_from([None, torch.bfloat16, torch.float16]),
)
def test_value_and_gradient_stay_finite(
    name, options, temperature, kind, tau_plus, beta, floor, dtype, autocast
):
    # Zero embeddings have gradients of 1e12 · (…), beyond 16 bits: those are asked of float32 only.
    views = extreme(kind, 16, torch.float32 if kind == "zero" else dtype)
    with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        loss = call(name, views, temperature=temperature, tau_plus=tau_plus, beta=beta,
                    floor=floor, **options)  # fmt: skip
        assert loss.dtype == torch.float32
        assert loss >= 0
        assert_finite(loss, views, (temperature, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.02, 10.0])
def test_large_batches_stay_finite(kind, temperature):
    large = (temperature, kind) in ((0.02, "collapsed"), (10.0, "random"))
    images = 4096 if large else 512
    for name in ("debiased_both",) if large else ("debiased_both", "hard_neg"):
        views = extreme(kind, images)
        assert_finite(call(name, views, temperature=temperature), views, name)


@pytest.mark.parametrize("name", ALL)
def test_autocast_changes_nothing(name):
    views = random_views(dtype=torch.float32).requires_grad_()
    plain = call(name, views, temperature=0.05)
    (expected,) = torch.autograd.grad(plain, views)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = call(name, views, temperature=0.05)
        # PyTorch advises against a backward pass under autocast; ours stands it where it is ours.
        if name in PAIRWISE:
            (found,) = torch.autograd.grad(cast, views, retain_graph=True)
            assert torch.equal(found, expected)
    (found,) = torch.autograd.grad(cast, views)
    assert torch.equal(cast, plain)
    assert torch.equal(found, expected)


@every_loss
@pytest.mark.parametrize("temperature", [0.02, 0.5])
def test_float32_agrees_with_float64(name, options, temperature):
    views = random_views(2, 32, 16)
    exact = call(name, views, temperature=temperature, **options)
    single = call(name, views.float(), temperature=temperature, **options)
    close(single.double(), exact, rtol=2e-4, atol=2e-5)
