"""A plan says what its units can decide, and which design of the same cost can."""

from __future__ import annotations

import json
import math
import re

import pytest

from study.design import Study
from study.planning.power import Spread, gate, pilot_sds, power_lines
from study.spec import resolved


def study(**changes) -> Study:
    data = {
        "name": "p",
        "trial": {"dataset": "digits", "epochs": 9},
        "arms": {"a": {}, "b": {"loss": "debiased_pos"}},
        "search": {
            "replicates": 8,
            "trials_per_arm": 6,
            "space": {"temperature": {"low": 0.1, "high": 1.0}},
        },
        "confirm": {"seeds": 1},
        "claims": [{"id": "C", "better": "b", "than": "a", "metric": "test/knn_top1"}],
        "margin": 0.01,
    }
    return resolved(data | changes)


def search(**changes) -> dict:
    return {"search": study().search.model_dump(by_alias=True, exclude_none=True) | changes}


def test_enough_replicates_pass_the_gate():
    assert gate(study()) == ""
    assert gate(study(claims=[])) == ""


def test_too_few_replicates_are_refused_with_the_nearest_design_of_the_same_cost():
    found = gate(study(**search(replicates=4, trials_per_arm=9), confirm={"seeds": 3}))
    assert found.startswith("one claim needs at least 6 replicates; with 4 none can be decided")
    assert "search.replicates=6 --set search.trials_per_arm=6 --set confirm.seeds=2" in found


def test_more_seeds_do_not_replace_searches():
    one = study(**search(replicates=1), confirm={"seeds": 500}, scope="method")
    assert "each arm is searched once" in gate(one)
    assert "--set search.replicates=6" in gate(one)


def test_configurations_are_counted_in_seeds():
    few = study(search=None, confirm={"seeds": 5})
    assert "at least 6 seeds; with 5" in gate(few)
    assert gate(study(search=None, confirm={"seeds": 6})) == ""


def test_a_pilot_of_few_units_is_taken_at_its_upper_limit():
    assert Spread(0.02).upper == 0.02
    assert 0.02 < Spread(0.02, 30).upper < Spread(0.02, 6).upper
    assert math.isinf(Spread(0.02, 1).upper)


def test_what_can_be_shown_is_in_the_metrics_unit():
    lines = list(power_lines(study(), {"C": Spread(0.02, 8)}))
    assert "smallest p that 8 replicates can reach: 0.0078" in lines[0]
    assert "pilot sd 0.0200, its upper limit 0.02" in lines[1]
    assert "one of 0.01, the margin, would take" in lines[1]


@pytest.mark.parametrize(
    ("sd_search", "sd_seed", "proposed"),
    [
        (0.03, 0.001, r"at the same cost \d\d replicates of 1 seed would"),
        (0.001, 0.03, r"at the same cost 6 replicates of \d\d seeds would"),
    ],
)
def test_a_better_split_of_the_same_cost_is_proposed(sd_search, sd_seed, proposed: str):
    wasteful = study(**search(replicates=8), confirm={"seeds": 12})
    spread = Spread(math.hypot(sd_search, sd_seed), 8, sd_search, sd_seed)
    (line,) = [line for line in power_lines(wasteful, {"C": spread}) if "same cost" in line]
    assert re.search(proposed, line)


def test_the_spread_of_a_report_keeps_its_parts(tmp_path):
    rows = [
        {"claim": "C", "dz": 0.5, "mean_difference": 0.01, "n_units": 8, "sd_search": 0.015,
         "sd_seed": 0.02},
        {"claim": None, "dz": 1.0, "mean_difference": 0.01},
    ]  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps({"comparisons": rows}))
    assert pilot_sds(tmp_path / "report.json") == {"C": Spread(0.02, 8, 0.015, 0.02)}
    assert pilot_sds(tmp_path / "none.json") == {}
