"""Are splits disjoint, stratified and fixed by their seed alone, whatever the labels?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.data.splits import Choice, Picks, pick
from contrastive.data.types import DataError

MODEST = settings(max_examples=60, deadline=None)


@st.composite
def label_arrays(draw) -> tuple[np.ndarray, int]:
    """Labels of 2-6 classes with 15-60 images each, some unlabelled, in any order."""
    sizes = draw(st.lists(st.integers(15, 60), min_size=2, max_size=6))
    unlabelled = draw(st.integers(0, 30))
    labels = np.repeat([*range(len(sizes)), -1], [*sizes, unlabelled])
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(labels), len(sizes)


def parts(picks: Picks) -> list[np.ndarray]:
    return [part for part in (picks.train, picks.val, picks.test) if part is not None]


@MODEST
@given(label_arrays(), st.integers(0, 2**40), st.booleans(), st.booleans())
def test_splits_are_disjoint_sorted_and_together_everything(drawn, seed, has_val, has_test):
    labels, classes = drawn
    picks = pick(labels, Choice(seed), classes=classes, has_val=has_val, has_test=has_test)
    together = np.concatenate(parts(picks))
    assert sorted(together) == list(range(len(labels)))
    assert all((np.diff(part) > 0).all() for part in parts(picks))
    assert (picks.val is None, picks.test is None) == (has_val, has_test)


@MODEST
@given(label_arrays(), st.integers(0, 99))
def test_held_out_splits_are_labelled_and_have_the_classes_proportions(drawn, seed):
    labels, classes = drawn
    picks = pick(labels, Choice(seed), classes=classes, has_val=False, has_test=False)
    sizes = np.bincount(labels[labels >= 0], minlength=classes)
    for held_out in (picks.val, picks.test):
        assert labels[held_out].min() >= 0
        counts = np.bincount(labels[held_out], minlength=classes)
        # both ends of a stretch of the even order are off by less than one image of each class
        assert (np.abs(counts - len(held_out) * sizes / sizes.sum()) <= 2).all()


@MODEST
@given(label_arrays(), st.integers(0, 99), st.data())
def test_a_limit_is_met_exactly_stratified_and_nested(drawn, seed, data):
    labels, classes = drawn
    everything = pick(labels, Choice(seed), classes=classes, has_val=False, has_test=True).train
    small = data.draw(st.integers(classes, len(everything)))
    large = data.draw(st.integers(small, len(everything) + 5))
    few, many = (
        pick(labels, Choice(seed, n), classes=classes, has_val=False, has_test=True).train
        for n in (small, large)
    )
    assert len(few) == small
    assert len(many) == min(large, len(everything))
    assert set(few) <= set(many) <= set(everything)
    strata = np.unique(labels[everything])
    share = small / len(everything)
    for stratum in strata:
        wanted = share * (labels[everything] == stratum).sum()
        assert abs((labels[few] == stratum).sum() - wanted) <= len(strata)


@MODEST
@given(label_arrays(), st.integers(0, 99), st.floats(0.05, 1))
def test_imbalance_keeps_the_stated_share_of_each_class(drawn, seed, imbalance):
    labels, classes = drawn
    options = {"classes": classes, "has_val": False, "has_test": True}
    before = pick(labels, Choice(seed), **options)
    after = pick(labels, Choice(seed, imbalance=imbalance), **options)
    assert set(after.train) <= set(before.train)
    assert np.array_equal(after.val, before.val)
    for c in range(classes):
        kept, had = ((labels[p.train] == c).sum() for p in (after, before))
        assert kept == max(1, round(had * imbalance ** (c / (classes - 1))))
    assert (labels[after.train] == -1).sum() == (labels == -1).sum()


@MODEST
@given(label_arrays(), st.integers(0, 99), st.integers(6, 40), st.sampled_from([1.0, 0.3]))
def test_one_seed_is_one_split_and_never_loses_a_class(drawn, seed, limit, imbalance):
    labels, classes = drawn
    choice = Choice(seed, limit, imbalance)
    first, again = (
        pick(labels, choice, classes=classes, has_val=False, has_test=False) for _ in range(2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(parts(first), parts(again), strict=True))
    assert set(range(classes)) <= set(labels[first.train])


def test_another_seed_is_another_split():
    labels = np.repeat(np.arange(5), 40)
    options = {"classes": 5, "has_val": False, "has_test": True}
    assert not np.array_equal(
        pick(labels, Choice(0), **options).val, pick(labels, Choice(1), **options).val
    )


def test_a_split_seed_keeps_its_meaning():
    """Figures of a released version must stay comparable: this changes only with a changelog."""
    labels = np.tile(np.arange(2), 20)
    picks = pick(labels, Choice(7), classes=2, has_val=False, has_test=True)
    assert picks.val.tolist() == [3, 17, 22, 34]  # as first released


def test_ten_percent_validate_where_the_source_has_a_test_split():
    labels = np.repeat(np.arange(10), 50)
    picks = pick(labels, Choice(), classes=10, has_val=False, has_test=True)
    assert np.bincount(labels[picks.val]).tolist() == [5] * 10


def test_too_few_images_to_hold_any_out_is_an_error():
    with pytest.raises(DataError, match="3 labelled training images of 3 classes are too few"):
        pick(np.arange(3), Choice(), classes=3, has_val=False, has_test=True)


@MODEST
@given(label_arrays(), st.integers(0, 99), st.booleans())
def test_without_validation_its_images_train_and_nothing_else_changes(drawn, seed, has_test):
    labels, classes = drawn
    given = {"classes": classes, "has_val": False, "has_test": has_test}
    held_out, trained = (
        pick(labels, Choice(seed, validation=validation), **given) for validation in (True, False)
    )
    assert sorted(trained.train) == sorted([*held_out.train, *held_out.val])
    assert trained.val is not None
    assert len(trained.val) == 0
    assert np.array_equal(trained.test, held_out.test) or has_test


def test_a_validation_split_of_the_source_is_not_given_up():
    labels = np.repeat(np.arange(3), 20)
    with pytest.raises(DataError, match=r"split of their own\n  allowed.*\n  try: move") as refused:
        pick(labels, Choice(validation=False), classes=3, has_val=True, has_test=True)
    assert refused.value.settings == ("validation",)


def test_slugs_tell_choices_apart():
    choices = [Choice(), Choice(1), Choice(0, 100), Choice(0, 100, 0.1), Choice(0, None, 0.1)]
    choices += [Choice(validation=False), Choice(0, 100, validation=False)]
    assert len({choice.slug for choice in choices}) == len(choices)
    assert Choice(0, 100, 0.1).slug == "seed0-limit100-imbalance0.1"
