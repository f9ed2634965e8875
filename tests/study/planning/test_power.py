"""A plan says what its units can decide, and which design of the same cost can."""

from __future__ import annotations

import json
import math
import re

import pytest

from study.design import Study
from study.planning.budget import cost_line, design_of
from study.planning.dry_run import start_lines
from study.planning.power import Pilot, Spread, gate, pilot_of, pilot_sds, power_lines
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


def test_the_margin_and_the_pilots_sd_are_of_scores():
    cheaper = {"id": "S", "better": "a", "than": "b", "metric": "seconds"}
    both = study(claims=[*study().claims, cheaper], pilot_sd=0.01)
    lines = list(power_lines(both, Pilot({"S": Spread(30.0)})))
    (score,) = [line for line in lines if line.startswith("  C: ")]
    (cost,) = [line for line in lines if line.startswith("  S: ")]
    assert "pilot sd 0.0100" in score
    assert "one of 0.01, the margin" in score
    assert "pilot sd 30.0000" in cost
    assert "margin" not in cost


def search(**changes) -> dict:
    return {"search": study().search.model_dump(by_alias=True, exclude_none=True) | changes}


def test_enough_replicates_pass_the_gate():
    assert gate(study()) == ""
    assert gate(study(claims=[])) == ""


def test_too_few_replicates_are_refused_with_the_nearest_design_of_the_same_cost():
    found = gate(study(**search(replicates=4, trials_per_arm=9), confirm={"seeds": 3}))
    assert found.startswith("one claim needs at least 6 replicates; with 4 none can be decided")
    options = "--set search.replicates=6 --set search.trials_per_arm=6 --set confirm.seeds=2"
    assert f"{options}, at the same cost" in found


@pytest.mark.parametrize(
    ("replicates", "trials", "seeds"), [(2, 2, 1), (3, 3, 2), (4, 9, 3), (1, 40, 5), (5, 6, 1)]
)
def test_the_proposed_design_decides_and_costs_what_it_says(replicates, trials, seeds):
    changes = {"confirm": {"seeds": seeds}, "scope": "method"}
    few = study(**search(replicates=replicates, trials_per_arm=trials), **changes)
    found = gate(few)
    options = {name: int(value) for name, value in re.findall(r"--set \w+\.(\w+)=(\d+)", found)}
    proposed = study(
        **search(
            replicates=options["replicates"],
            trials_per_arm=options.get("trials_per_arm", trials),
        ),
        confirm={"seeds": options.get("seeds", seeds)},
    )
    assert gate(proposed) == ""
    before, after = design_of(few).cost, design_of(proposed).cost
    if "at the same cost" in found:
        assert after <= before
        assert proposed.search.trials_per_arm >= 2
    else:
        assert f"{after:.0f} trainings instead of {before:.0f}" in found
        assert after > before


def test_looks_that_end_before_the_replicates_spend_alpha_twice():
    wide = study(**search(replicates=16), confirm={"seeds": 1, "looks": [8, 12]})
    assert "may err in up to twice as many studies" in gate(wide)
    assert "--set confirm.looks=[8,12,16]" in gate(wide)
    assert gate(study(**search(replicates=16), confirm={"seeds": 1, "looks": [8, 16]})) == ""


def test_more_seeds_do_not_replace_searches():
    one = study(**search(replicates=1), confirm={"seeds": 500}, scope="method")
    assert "each arm is searched once" in gate(one)
    assert "--set search.replicates=6" in gate(one)


def test_configurations_are_counted_in_seeds():
    few = study(search=None, confirm={"seeds": 5})
    assert "at least 6 seeds; with 5" in gate(few)
    assert "--set confirm.seeds=6: 12 trainings instead of 10" in gate(few)
    assert gate(study(search=None, confirm={"seeds": 6})) == ""
    one = search(replicates=1, trials_per_arm=12)
    searched = study(**one, confirm={"seeds": 4}, scope="configuration")
    assert "--set search.trials_per_arm=10 --set confirm.seeds=6, at the same cost" in gate(
        searched
    )


def replicates(total: float, sd_search: float | None, seeds: int = 2) -> Spread:
    return Spread(total, 8, sd_search, seeds, "replicate")


def lines(s: Study, spread: Spread | None = None) -> list[str]:
    return list(power_lines(s, Pilot({"C": spread} if spread else {})))


def test_a_pilot_of_few_units_is_taken_at_its_upper_limit():
    assert Spread(0.02).limit == 1
    assert 1 < Spread(0.02, 30).limit < Spread(0.02, 6).limit
    assert math.isinf(Spread(0.02, 1).limit)


def test_the_luck_of_more_seeds_is_smaller_and_that_of_the_search_is_not():
    pilot = replicates(math.sqrt(0.03**2 + 0.02**2 / 2), 0.03)
    assert pilot.seed == pytest.approx(0.02)
    assert pilot.of(2) == pytest.approx(pilot.total)
    assert pilot.of(10_000) == pytest.approx(0.03, rel=1e-3)
    assert replicates(0.02, 0.0).of(2) == pytest.approx(0.02)  # where it was told to be 0


def test_what_can_be_shown_is_in_the_metrics_unit():
    found = lines(study(), Spread(0.02, 8, unit="replicate"))
    assert "6 replicates are needed, 8 are planned, whose smallest p is 0.0078" in found[0]
    assert "pilot sd 0.0200, its upper limit 0.02" in found[1]
    assert "one of 0.01, the margin, would take" in found[1]
    assert "two seeds per replicate" in found[2]


def test_claims_of_which_the_same_is_known_share_a_line():
    claims = [{"id": i, "better": "b", "than": "a", "metric": "test/knn_top1"} for i in "CDE"]
    found = [line for line in lines(study(claims=claims)) if "can show" in line]
    assert [line[:9] for line in found] == ["  C, D, E"]


def test_a_pilot_that_searched_once_does_not_know_the_luck_of_a_search():
    assert any("searched once" in line for line in lines(study(), Spread(0.02, 8, unit="seed")))
    assert not any("searched once" in line for line in lines(study(), replicates(0.02, 0.01)))


@pytest.mark.parametrize(
    ("sd_search", "sd_seed", "seeds", "proposed"),
    [
        (0.03, 0.001, 8, r"same cost: --set search.replicates=\d\d --set confirm.seeds=1 can show"),
        (
            0.001,
            0.03,
            1,
            r"same cost: --set search.replicates=\d --set confirm.seeds=\d can show",
        ),
    ],
)
def test_a_better_split_of_the_same_cost_is_proposed(sd_search, sd_seed, seeds: int, proposed: str):
    wasteful = study(**search(replicates=12), confirm={"seeds": seeds})
    spread = replicates(math.sqrt(sd_search**2 + sd_seed**2 / 2), sd_search)
    found = lines(wasteful, spread)
    (same_trials,) = [line for line in found if re.search(proposed, line)]
    shown = [float(re.search(r"can show (?:a difference of )?([\d.]+)", line)[1])
             for line in (found[1], same_trials)]  # fmt: skip
    assert shown[1] < 0.95 * shown[0]
    fewer = [line for line in found if "trials_per_arm=3" in line]
    assert all("as far as fewer trials leave the spread as it is" in line for line in fewer)


def test_a_good_split_is_called_so():
    even = study(**search(replicates=12, trials_per_arm=2), confirm={"seeds": 1})
    assert "split well" in lines(even, replicates(0.03, 0.0299))[-1]


def test_the_cost_is_told_in_trainings_and_like_the_pilots_in_time():
    stopped = search(early_stopping={"grace_epochs": 1, "reduction_factor": 3})
    whole, early = cost_line(study()), cost_line(study(**stopped))
    assert whole == "cost: 96 trials and 16 confirmation runs"
    assert re.match(r"cost: 96 trials \(some \d\d whole trainings, .*\) and 16 conf", early)
    pilot = Pilot(trial_s=10.0, run_s=30.0)
    timed = list(start_lines(study(), slots=2, pilot=pilot))[-1]
    assert timed.startswith(f"time: about {(96 * 10 + 16 * 30) // 120} min 00 s of training with 2")
    assert "--dry-run estimates it" in list(start_lines(study(), slots=2, pilot=Pilot()))[-1]


def test_the_spread_of_a_report_keeps_its_parts(tmp_path):
    rows = [
        {"claim": "C", "dz": 0.5, "mean_difference": 0.01, "n_units": 8, "sd_search": 0.015,
         "unit_of_analysis": "replicate", "seeds": list(range(16))},
        {"claim": None, "dz": 1.0, "mean_difference": 0.01},
    ]  # fmt: skip
    (tmp_path / "p" / "report").mkdir(parents=True)
    report = tmp_path / "p" / "report" / "report.json"
    report.write_text(json.dumps({"comparisons": rows}))
    assert pilot_sds(report) == {"C": Spread(0.02, 8, 0.015, 2, "replicate")}
    assert pilot_sds(tmp_path / "none.json") == {}
    (tmp_path / "p" / "runs.csv").write_text(
        "phase,status,seconds\nsearch,finished,4\nsearch,stopped,2\nconfirm,finished,9\n"
        "confirm,failed,1\nconfirm,planned,0\n"
    )
    pilot = pilot_of(str(tmp_path), None, "p")
    assert (pilot.trial_s, pilot.run_s) == (3.0, 9.0)
    assert pilot_of(str(tmp_path), None, "new") == Pilot()
