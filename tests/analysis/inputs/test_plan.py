"""Faults of declared claims: each is found, with what is allowed and what to try."""

from __future__ import annotations

import re

import pytest

from analysis.errors import TableError
from analysis.inputs.claim_checks import check_claims
from analysis.inputs.plan import read_plan

PLAN = {
    "arms": {"contrastive": {}, "debiased_pos": {}},
    "conditions": {"clean": {}, "blurred": {}},
    "trial": {"epochs": 12},
    "confirm": {"seeds": [1, 2], "metrics": ["test/knn_top1", "test/linear_top1"]},
}
GOOD = {"id": "F1", "better": "debiased_pos", "than": "contrastive", "metric": "test/knn_top1"}
HURT = {"id": "F3", "less_hurt": "debiased_pos", "than": "contrastive", "metric": "test/knn_top1",
        "from": "clean", "to": "blurred"}  # fmt: skip


def faults(*claims, **plan):
    return check_claims(PLAN | {"claims": list(claims)} | plan)


def test_sound_claims_have_no_faults():
    curve = GOOD | {"id": "F2", "metric": "auc(val/knn_top1, epochs 1-4)", "under": "blurred"}
    fresh = GOOD | {"id": "F2t", "metric": "auc(test/knn_top1, epochs 1-4)"}
    same = {"id": "E", "equivalent": "debiased_pos", "to": "contrastive", "metric": "test/knn_top1"}
    assert faults(GOOD, curve, fresh, HURT, same, margin=0.01) == []


@pytest.mark.parametrize(
    ("claim", "path", "what", "try_"),
    [
        (GOOD | {"better": "debiased_poss"}, "better", "no arm", "better: debiased_pos"),
        (GOOD | {"than": "debiased_pos"}, "than", "itself", "contrastive"),
        (GOOD | {"under": "clear"}, "under", "no condition", "under: clean"),
        (GOOD | {"metric": "test/knn_top2"}, "metric", "confirm.metrics", "test/knn_top1"),
        (GOOD | {"metric": "auc(val/knn_top1)"}, "metric", "is not a metric", "epochs 1-4"),
        (GOOD | {"metric": "auc(val/knn_top1, epochs 4-1)"}, "metric", "is not a metric", "epochs"),
        (GOOD | {"metric": "auc(val/knn_top1, epochs 1-40)"}, "metric", "epoch 40", "1-12"),
        (GOOD | {"undr": "clean"}, "undr", "unknown key", "under"),
        (HURT | {"to": "clean"}, "to", "same condition", "blurred"),
    ],
)
def test_fault_of_one_claim(claim, path, what, try_):
    (found,) = faults(claim)
    assert found[0] == ("claims", 0, path)
    assert what in found[1]
    assert found[2]
    assert try_ in found[3]


def test_faults_of_all_claims_are_found_together():
    found = faults(GOOD, GOOD, {"bettr": "a", "than": "b"}, 5, {"id": "X", "better": "contrastive"})
    texts = [fault[1] for fault in found]
    assert any("id F1 is claim 1's already" in text for text in texts)
    assert any("has no kind" in text for text in texts)
    assert any("the claim is 5" in text for text in texts)
    assert {"the claim has no than", "the claim has no metric"} <= set(texts)


COSTS = {"seconds": {"better": "lower", "unit": "s", "kind": "cost"}}
CHEAPER = {"id": "S", "better": "contrastive", "than": "debiased_pos", "metric": "seconds"}


def test_a_cost_needs_no_place_among_the_final_figures():
    assert faults(GOOD, CHEAPER, metrics=COSTS) == []
    (found,) = faults(CHEAPER | {"metric": "second"}, metrics=COSTS)
    assert "second is not among confirm.metrics" in found[1]


@pytest.mark.parametrize(
    ("claim", "what"),
    [
        (CHEAPER | {"metric": "auc(seconds, epochs 1-4)"}, "seconds is a cost, and has no window"),
        (
            {"id": "E", "equivalent": "contrastive", "to": "debiased_pos", "metric": "seconds"},
            "a margin, which is one of scores: seconds is a cost",
        ),
    ],
)
def test_what_cannot_be_said_of_a_cost(claim, what):
    (found,) = faults(GOOD, claim, metrics=COSTS, margin=0.01)
    assert what in found[1]


def test_equivalence_without_a_margin_is_refused():
    claim = {"id": "E", "equivalent": "debiased_pos", "to": "contrastive",
             "metric": "test/knn_top1"}  # fmt: skip
    assert "needs a margin" in faults(claim)[0][1]


@pytest.mark.parametrize(
    ("plan", "match"),
    [
        ("a: [1", "does not parse"),
        ("- 1", "not a mapping"),
        ("claims: [{better: a}]", "claims are faulty"),
        ("alpha: 5", "alpha is 5"),
        ("margin: -1", "margin is -1"),
    ],
)
def test_a_plan_that_cannot_be_used_says_why(tmp_path, plan, match):
    file = tmp_path / "study.yaml"
    file.write_text(plan)
    with pytest.raises(TableError, match=match):
        read_plan(file)


def test_a_missing_plan_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(TableError, match=r"gone\.yaml: the plan does not exist"):
        read_plan(tmp_path / "gone.yaml")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("  replicates: 0", "plan.yaml:3: search.replicates is 0"),
        ("  replicates: many", "plan.yaml:3: search.replicates is 'many'"),
        ("  replicates: true", "plan.yaml:3: search.replicates is True"),
        ("  looks: [8, 4]", "plan.yaml:6: confirm.looks is [8, 4]"),
        ("  looks: [4, 9]", "plan.yaml:6: the last of confirm.looks is 9, after the last"),
        ("scope: metod", "plan.yaml:7: scope is 'metod'"),
        ("correction: hulm", "plan.yaml:8: correction is 'hulm'"),
    ],
)
def test_faults_of_replicates_and_looks_name_their_line(tmp_path, changed: str, said: str):
    lines = [
        "arms: {a: {}, b: {}}", "search:", "  replicates: 8", "confirm:", "  seeds: 1",
        "  looks: [4, 8]", "scope: method", "correction: max_t",
    ]  # fmt: skip
    key = changed.split(":")[0]
    file = tmp_path / "plan.yaml"
    file.write_text("\n".join(changed if line.split(":")[0] == key else line for line in lines))
    with pytest.raises(TableError, match=re.escape(said)) as told:
        read_plan(file)
    assert "allowed: " in str(told.value)


def test_a_method_without_a_search_names_its_line(tmp_path):
    (tmp_path / "plan.yaml").write_text("arms: {a: {}, b: {}}\n\nscope: method\n")
    with pytest.raises(TableError, match=r"plan\.yaml:3: scope is method, and there is no search"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize(
    ("search", "seeds", "units"),
    [({"replicates": 8}, 2, 8), ({"replicates": 1}, 6, 6), ({}, [4, 5], 2)],
)
def test_units_are_replicates_where_there_are_several(search, seeds, units: int):
    assert read_plan({"search": search, "confirm": {"seeds": seeds}}).planned_n == units
