"""Wrong arguments are refused with what is wrong and what is allowed."""

from __future__ import annotations

import inspect

import pytest
import torch

from contrastive.catalogue import ENCODER_NAMES, LOSS_OPTIONS, accepted
from contrastive.encoders import ENCODERS
from contrastive.losses import LOSSES

PAIRWISE = ["contrastive", "debiased_neg", "debiased_pos", "debiased_both", "hard_neg"]
VIEWS = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 0, -1])


def call(name, views=VIEWS, **changes):
    options = {"temperature": 0.5, "labels": LABELS} | changes
    taken = {k: v for k, v in options.items() if k in accepted(name) or k in changes}
    return LOSSES[name](views, **taken)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("views", "message"),
    [
        (VIEWS[0], r"shape \(4, 3\); allowed: floating point of shape \(V, B, D\)"),
        (VIEWS[:, :, :0], "shape"),
        (VIEWS.long(), r"int64.*allowed: floating point"),
        (VIEWS[:1], "1 view of each image; allowed: at least 2"),
        (VIEWS[:, :1], "1 image; allowed: at least 2"),
    ],
    ids=["2-d", "empty", "integer", "one view", "one image"],
)
def test_views(name, views, message):
    with pytest.raises(ValueError, match=message):
        call(name, views)


@pytest.mark.parametrize("name", [n for n in LOSSES if n != "triplet"])
@pytest.mark.parametrize("temperature", [0, -0.1, float("nan"), float("inf")])
def test_temperature(name, temperature):
    with pytest.raises(ValueError, match=r"temperature is .*; allowed: a finite number > 0"):
        call(name, temperature=temperature)


@pytest.mark.parametrize(
    ("name", "option", "values", "allowed"),
    [
        ("debiased_neg", "tau_plus", [-0.1, 1.0, float("nan")], r"\[0, 1\)"),
        ("hard_neg", "tau_plus", [-0.1, 1.0], r"\[0, 1\)"),
        ("debiased_pos", "tau_plus", [-0.1, 0.0, 1.0], r"\(0, 1\).*teaches nothing"),
        ("debiased_both", "tau_plus", [0.0, 1.0], r"\(0, 1\)"),
        ("debiased_both", "alpha", [-0.1, 1.1], r"\[0, 1\]"),
        ("hard_neg", "beta", [-1.0, float("inf")], ">= 0"),
        ("triplet", "margin", [0.0, -1.0], "> 0"),
    ],
)
def test_ranges(name, option, values, allowed):
    for value in values:
        with pytest.raises(ValueError, match=f"{option} is .*; allowed: .*{allowed}"):
            call(name, **{option: value})


@pytest.mark.parametrize("name", PAIRWISE)
def test_choices(name):
    options = ["aggregation", "false_negatives"]
    options += ["floor"] if name != "contrastive" else []
    for option in options:
        with pytest.raises(ValueError, match=f"{option} is 'none'; allowed: '"):
            call(name, **{option: "none"})


@pytest.mark.parametrize("name", LOSSES)
def test_labels(name):
    drop = {"false_negatives": "drop"} if name in PAIRWISE else {}
    with pytest.raises(ValueError, match=r"labels is None, but .* needs them"):
        call(name, labels=None, **drop)
    for labels in (LABELS[:3], LABELS.float(), LABELS[None]):
        with pytest.raises(ValueError, match=r"labels is .*; allowed: integers of shape \(4,\)"):
            call(name, labels=labels, **drop)


@pytest.mark.parametrize("name", [*PAIRWISE, "triplet"])
def test_a_batch_of_one_label_has_no_negatives(name):
    drop = {"false_negatives": "drop"} if name in PAIRWISE else {}
    with pytest.raises(ValueError, match=r"same.*allowed: at least two labels"):
        call(name, labels=torch.zeros(4, dtype=torch.long), **drop)


@pytest.mark.parametrize("name", PAIRWISE)
def test_labels_are_not_read_when_false_negatives_stay(name):
    assert call(name, labels=None) == call(name)


@pytest.mark.parametrize("name", LOSSES)
def test_the_catalogue_lists_what_each_loss_takes(name):
    parameters = inspect.signature(LOSSES[name]).parameters.values()
    taken = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert set(accepted(name)) == taken
    assert len(accepted(name)) == len(taken)


def test_the_catalogue_names_the_losses_and_encoders_that_there_are():
    assert list(LOSS_OPTIONS) == list(LOSSES)
    assert list(ENCODER_NAMES) == list(ENCODERS)


def test_accepted_names_the_nearest_loss():
    with pytest.raises(ValueError, match=r"'debiased_ngt' is unknown.*mean 'debiased_neg'\?"):
        accepted("debiased_ngt")


def test_settings_are_keyword_only():
    for loss in LOSSES.values():
        with pytest.raises(TypeError):
            loss(VIEWS, 0.5)
