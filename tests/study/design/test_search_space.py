"""Is each arm offered the dimensions that concern it, in order, and nothing else?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.design.arms import arms_of
from study.design.search_space import SearchSpace, ordered
from study.design.study import Parameter, Study
from study.spec.find_workload import resolved


def study(**changes) -> Study:
    data = {
        "name": "t",
        "arms": {
            "plain": {"loss": "contrastive"},
            "pos": {"loss": "debiased_pos"},
            "cold": {"loss": "debiased_pos", "temperature": 0.1},
        },
        "conditions": {"clean": {}, "blurred": {"blur_prob": 0.9}},
        "search": {
            "trials_per_arm": 4,
            "space": {
                "aggregation": {
                    "choices": ["pos_grouping", "loss_combination"],
                    "when": {"num_positives": [2, 4]},
                },
                "temperature": {"low": 0.1, "high": 1.0, "log": True},
                "tau_plus": {"low": 0.01, "high": 0.3},
                "num_positives": {"choices": [1, 2, 4]},
                "blur_prob": {"low": 0.0, "high": 0.5},
            },
            "first": [
                {"temperature": 0.5, "tau_plus": 0.1},
                {"temperature": 0.5, "tau_plus": 0.2, "num_positives": 4},
            ],
        },
        "confirm": {"seeds": 3},
    }
    return resolved(data | changes)


def changed(s: Study, **search) -> Study:
    return resolved(s.model_dump() | {"search": s.search.model_dump() | search})


def space_of(s: Study, arm: str) -> SearchSpace:
    return arms_of(s)[arm].space


def first_points(s: Study, arm: str) -> list[dict]:
    return arms_of(s)[arm].first


def test_what_an_arm_or_a_condition_sets_leaves_the_space():
    assert set(space_of(study(), "pos")) == {
        "temperature", "tau_plus", "num_positives", "aggregation",
    }  # fmt: skip
    assert "temperature" not in space_of(study(), "cold")


def test_options_that_the_loss_does_not_take_leave_the_space():
    assert "tau_plus" not in space_of(study(), "plain")


def test_when_on_the_arms_loss_decides_for_the_whole_arm():
    s = study()
    space = dict(s.search.space)
    space["learning_rate"] = Parameter(low=1e-4, high=1e-2, when={"loss": ["debiased_pos"]})
    s = changed(s, space={name: p.model_dump() for name, p in space.items()})
    assert "learning_rate" in space_of(s, "pos")
    assert "learning_rate" not in space_of(s, "plain")


def test_dimensions_come_after_those_they_ask_about():
    names = list(space_of(study(), "pos"))
    assert names.index("num_positives") < names.index("aggregation")
    with pytest.raises(ValueError, match="circle among a, b"):
        ordered(
            {
                "a": Parameter(choices=[1], when={"b": 1}),
                "b": Parameter(choices=[1], when={"a": 1}),
            }
        )


@given(st.sampled_from([1, 2, 4]))
def test_a_conditional_dimension_is_drawn_only_when_it_counts(positives: int):
    space = space_of(study(), "pos")
    drawn = space.draw(
        lambda name, p: positives if name == "num_positives" else (p.choices or [p.low])[0]
    )
    assert ("aggregation" in drawn) == (positives > 1)
    assert set(drawn) >= {"temperature", "tau_plus", "num_positives"}
    assert space.conditional


def test_first_points_are_fitted_to_each_arm():
    assert first_points(study(), "pos") == [
        {"temperature": 0.5, "tau_plus": 0.1, "num_positives": 1},
        {"temperature": 0.5, "tau_plus": 0.2, "num_positives": 4, "aggregation": "pos_grouping"},
    ]
    assert first_points(study(), "plain") == [
        {"temperature": 0.5, "num_positives": 1},
        {"temperature": 0.5, "num_positives": 4, "aggregation": "pos_grouping"},
    ]


def test_points_that_coincide_for_an_arm_are_tried_once():
    first = [{"temperature": 0.5, "tau_plus": 0.1}, {"temperature": 0.5, "tau_plus": 0.2}]
    s = changed(study(), first=first)
    assert len(first_points(s, "pos")) == 2
    assert len(first_points(s, "plain")) == 1


def test_whole_numbers_are_drawn_as_whole_numbers():
    sizes = {"batch_size": {"low": 16, "high": 64}, "num_positives": {"low": 1, "high": 4}}
    rates = {"temperature": {"low": 1, "high": 2}, "tau_plus": {"low": 0.1, "high": 0.3}}
    space = space_of(changed(study(), space=sizes | rates), "pos")
    assert {name for name in space if space.integral(name)} == set(sizes)
    for seed in range(20):
        drawn = space.random(seed)
        assert {name for name, value in drawn.items() if isinstance(value, int)} == set(sizes)


def test_a_condition_prevails_over_an_arm():
    s = study(arms={"sharp": {"blur_prob": 0.0}})
    assert s.fixed("sharp", "blurred")["blur_prob"] == 0.9
    assert s.fixed("sharp", "clean")["blur_prob"] == 0.0
