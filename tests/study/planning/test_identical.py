"""Is a study told that two of its arms, conditions or claims are the same?"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from in_process import without_ray

from study import session
from study.planning.identical import identical_lines
from study.run import main
from study.spec.find_workload import resolved

BASE: dict[str, Any] = {
    "name": "a",
    "trial": {"dataset": "digits", "epochs": 2, "train_limit": 100, "batch_size": 20},
    "arms": {"plain": {"loss": "contrastive"}, "pos": {"loss": "debiased_pos"}},
    "conditions": {"clean": {}, "blurred": {"blur_prob": 0.9}},
    "confirm": {"seeds": 2},
    "claims": [{"id": "A", "better": "pos", "than": "plain", "metric": "test/knn_top1"}],
}
TWIN = {"arms": BASE["arms"] | {"twin": {}}}  # the default loss is contrastive
SPACE = {"temperature": {"low": 0.1, "high": 1.0}, "tau_plus": {"low": 0.1, "high": 0.2}}
SEARCH = {"search": {"trials_per_arm": 2, "space": SPACE}}


def lines(**changes) -> list[str]:
    return list(identical_lines(resolved(BASE | changes)))


def test_a_study_whose_parts_differ_is_told_nothing():
    assert lines() == []
    assert lines(**SEARCH) == []


def test_arms_that_differ_in_their_name_only():
    (line,) = lines(**TWIN)
    assert line.startswith("the arms plain and twin train alike under every condition")
    assert lines(**TWIN, **SEARCH) == [line]


def test_an_arm_that_searches_what_the_other_one_sets_is_another_arm():
    arms = BASE["arms"] | {"twin": {"temperature": 0.5}}  # the default
    assert len(lines(arms=arms)) == 1
    assert lines(arms=arms, **SEARCH) == []


def test_arms_that_differ_under_one_condition_only():
    """`blurred` sets what distinguishes them, `clean` does not."""
    arms = {"plain": {}, "sharp": {"blur_prob": 0.1}}
    claims = [{"id": "A", "better": "sharp", "than": "plain", "metric": "test/knn_top1"}]
    assert lines(arms=arms, claims=claims) == []
    only = {"blurred": {"blur_prob": 0.9}}
    assert "the arms plain and sharp" in lines(arms=arms, claims=claims, conditions=only)[0]


def test_conditions():
    # The default, and an option that neither loss of these arms takes.
    same = {
        "clean": {},
        "as_ever": {"blur_prob": 0.5},
        "beta": {"beta": 3.0},
        "dark": {"tau_plus": 0.2},
    }
    assert lines(conditions=same) == [
        "the conditions clean, as_ever and beta are the same for every arm"
    ]


def test_claims():
    again = [
        {"id": "B", "better": "pos", "than": "plain", "metric": "test/knn_top1", "under": "clean"},
        {
            "id": "C",
            "better": "pos",
            "than": "plain",
            "metric": "test/knn_top1",
            "under": "blurred",
        },
        {"id": "D", "better": "plain", "than": "pos", "metric": "test/knn_top1"},
    ]
    (line,) = lines(claims=[*BASE["claims"], *again])
    assert line.startswith("the claims A and B say the same")


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_the_command_says_so_and_goes_on(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    monkeypatch.setattr(session.Session, "run", lambda self: 0)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(BASE | TWIN))
    assert main(["a.yaml", *options]) == 0
    told = capsys.readouterr().out
    assert told.count("note: the arms plain and twin train alike") == 1
