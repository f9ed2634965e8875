"""Studies whose truth is known get the verdicts of the protocol."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known_truth import METRIC, noisy, table_of

from analysis.report import analyse
from analysis.report_json import differences
from analysis.wording import p_number
from analysis.wording.paragraphs import paragraphs


def plan(claims=None, **changes) -> dict:
    claims = claims or [{"id": "C", "better": "b", "than": "a", "metric": METRIC}]
    return {
        "arms": {"a": {}, "b": {}},
        "confirm": {"metrics": [METRIC]},
        "claims": claims,
    } | changes


def verdict(frame, **changes) -> tuple[str, str | None]:
    record = analyse(frame, plan=plan(**changes))["comparisons"][0]
    return record["verdict"], record["reason"]


@pytest.mark.parametrize(
    ("shift", "n", "expected"),
    [
        (0.05, 8, ("better", None)),
        (-0.05, 8, ("worse", None)),
        (0.05, 5, ("undecided", "design_cannot_reach")),
        (0.05, 2, ("invalid", "too_few_pairs")),
        (0.001, 8, ("undecided", "insufficient_evidence")),
    ],
)
def test_a_planted_difference_gets_its_verdict(shift, n, expected):
    frame = table_of({"a": noisy(0.6, n, seed=1), "b": noisy(0.6 + shift, n, seed=2)})
    assert verdict(frame) == expected


def test_a_claim_is_refuted_by_less_than_the_margin_and_equivalence_by_more():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.601, seed=2)})
    same = [{"id": "C", "equivalent": "b", "to": "a", "metric": METRIC}]
    assert verdict(frame, margin=0.02) == ("not_better", None)
    assert verdict(frame, margin=0.02, claims=same) == ("equivalent", None)
    assert verdict(frame)[0] == "undecided"
    refuted = analyse(frame, plan=plan(margin=0.02))["claims"][0]
    assert refuted["verdict"] == "refuted"
    assert "not better by the margin of 2.0 points" in refuted["sentence"]
    apart = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})
    assert verdict(apart, margin=0.02, claims=same) == ("better", None)
    assert analyse(apart, plan=plan(same, margin=0.02))["claims"][0]["verdict"] == "refuted"


def test_each_adjusted_p_says_which_answer_it_is_for():
    """An adjusted p beside a p of another hypothesis may be below it, and reads like a mistake."""
    rng = np.random.default_rng(4)
    a = noisy(0.6, seed=1)
    frame = table_of({"a": a, "b": a + rng.normal(0, 0.01, len(a))})
    for claims, null in (
        (None, {"p_supports": ["θ ≤ 0"], "p_refutes": ["θ ≥ 0.02"]}),
        (
            [{"id": "C", "equivalent": "b", "to": "a", "metric": METRIC}],
            {"p_supports": ["θ ≤ −0.02", "θ ≥ 0.02"], "p_refutes": ["θ ≤ 0.02", "θ ≥ −0.02"]},
        ),
    ):
        report = analyse(frame, plan=plan(claims, margin=0.02))
        record = report["comparisons"][0]
        p = {h["null"]: h["p_adjusted"] for h in record["hypotheses"]}
        supports = max(p[n] for n in null["p_supports"])
        refutes = min(p[n] for n in null["p_refutes"])
        assert (record["p_supports"], record["p_refutes"]) == (supports, refutes)
        assert record["p_adjusted"] == min(supports, refutes)
        shown = f"p = {p_number(supports)} for support, {p_number(refutes)} for refutation"
        assert f"adjusted {shown}" in report["claims"][0]["sentence"]


def test_a_sure_difference_below_the_margin_is_supported_and_says_so():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.61, seed=2)})
    claim = analyse(frame, plan=plan(margin=0.05))["claims"][0]
    assert (claim["verdict"], claim["within_margin"]) == ("supported", True)
    assert claim["sentence"].startswith("Supported, by less than the margin: ")


def test_identical_and_shifted_arms_are_invalid_not_significant():
    a = noisy(0.6)
    assert verdict(table_of({"a": a, "b": a})) == ("invalid", "identical_scores")
    shifted = [x + 0.01 for x in a]
    assert verdict(table_of({"a": a, "b": shifted})) == ("invalid", "zero_variance")


def test_one_constant_arm_is_compared_all_the_same():
    assert verdict(table_of({"a": [0.5] * 8, "b": noisy(0.6)})) == ("better", None)


def test_lower_losses_are_better():
    frame = table_of({"a": noisy(2.0, seed=1), "b": noisy(1.9, seed=2)}, metric="test/loss")
    claims = [{"id": "C", "better": "b", "than": "a", "metric": "test/loss"}]
    report = analyse(frame, plan=plan(claims, confirm={"metrics": ["test/loss"]}))
    assert report["claims"][0]["verdict"] == "supported"
    assert report["comparisons"][0]["mean_difference"] < 0


@pytest.mark.parametrize("flaw", ["duplicate_rows", "search_phase_scores"])
def test_flawed_rows_make_a_comparison_invalid(flaw):
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})
    if flaw == "duplicate_rows":
        frame = pd.concat([frame, frame.iloc[[3]]], ignore_index=True)
    else:
        frame["phase"] = np.where(frame.index == 3, "search", "confirm")
    assert verdict(frame) == ("invalid", flaw)


def test_an_invalid_claim_stays_in_the_family_as_one():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})
    claims = [
        {"id": "C1", "better": "b", "than": "a", "metric": METRIC},
        {"id": "C2", "better": "c", "than": "a", "metric": METRIC},
    ]
    first, second = analyse(frame, plan=plan(claims, arms={"a": {}, "b": {}, "c": {}}))[
        "comparisons"
    ][:2]
    assert second["verdict"] == "invalid"
    assert second["p_adjusted"] == 1
    assert first["p_adjusted"] == first["p_value"]
    assert first["p_holm"] == pytest.approx(2 * first["p_value"])


def test_a_seed_in_one_arm_only_is_dropped_with_its_reason():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)[:-1]})
    report = analyse(frame, plan=plan())
    record = report["comparisons"][0]
    assert record["n_pairs"] == 7
    assert record["dropped"] == [
        {"seed": 7, "arm": "b", "condition": "default", "reason": "absent"}
    ]
    assert any("absent" in w for w in report["warnings"])


def broken(n_broken: int) -> pd.DataFrame:
    frame = table_of({"a": noisy(0.6, 10, seed=1), "b": noisy(0.65, 10, seed=2)})
    lost = (frame["arm"] == "b") & (frame["seed"] < n_broken)
    return frame.assign(status=np.where(lost, "diverged", "finished"),
                        value=frame["value"].mask(lost))  # fmt: skip


def test_a_verdict_that_rests_on_dropping_broken_runs_is_undecided():
    # On complete pairs b is better; with three runs at chance it is far from that.
    assert verdict(broken(3), chance=0.1) == ("undecided", "missing_sensitive")
    record = analyse(broken(3), plan=plan(chance=0.1))["comparisons"][0]
    assert record["sensitivity"]["pairwise_complete"] == "better"
    assert record["sensitivity"]["scored_at_chance"] == "undecided"
    # 3 to 0 discordant: exact McNemar is 2 · 0.5³.
    assert record["failures"]["p_mcnemar"] == pytest.approx(0.25)


def test_without_a_chance_level_a_broken_run_leaves_it_undecided():
    assert verdict(broken(1)) == ("undecided", "missing_sensitive")


def test_a_run_that_broke_in_both_arms_changes_nothing():
    frame = table_of({"a": noisy(0.6, 10, seed=1), "b": noisy(0.65, 10, seed=2)})
    lost = frame["seed"] == 0
    frame = frame.assign(status=np.where(lost, "failed", "finished"))
    assert verdict(frame, chance=0.1) == ("better", None)


def test_unplanned_looks_leave_every_verdict_undecided_and_planned_ones_share_alpha():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})
    peeked = {"looks": ["after 4 seeds"]}
    record = analyse(frame, plan=plan(), provenance=peeked)["comparisons"][0]
    assert (record["verdict"], record["reason"]) == ("undecided", "unplanned_looks")
    assert record["exploratory"]
    allowed = analyse(frame, plan=plan(looks=2), provenance=peeked)
    assert allowed["design"]["alpha_per_look"] == 0.025
    assert allowed["comparisons"][0]["verdict"] == "better"


def test_another_margin_than_the_plans_is_exploratory():
    frame = table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)})
    assert analyse(frame, plan=plan(margin=0.01), margin=0.1)["comparisons"][0]["exploratory"]
    assert not analyse(frame, plan=plan(margin=0.01))["comparisons"][0]["exploratory"]


def test_a_whole_study_supports_its_true_claims(study):
    report = analyse(study["results"], plan=study["plan"], runs=study["runs"])
    assert [c["verdict"] for c in report["claims"]] == ["supported"] * 3
    interaction = report["comparisons"][2]
    # Per seed, (better blurred - clean) - (plain blurred - clean): planted as 0.04.
    assert interaction["mean_difference"] == pytest.approx(0.04, abs=0.006)
    assert report["comparisons"][1]["early_minus_late"]["mean_difference"] > 0
    assert report["design"]["family_size"] == 3
    assert report["design"]["p_min"] == 2 / 2**8
    assert report["warnings"] == []
    assert all(row["ci_low"] > 0.2 for row in report["training_helps"])


def test_the_pooled_row_averages_within_a_seed_and_keeps_n_seeds(study):
    report = analyse(study["results"][study["results"]["metric"] == METRIC])
    rows = {c["condition"]: c for c in report["comparisons"]}
    assert list(rows) == ["clean", "blurred", "pooled"]
    halves = np.array([rows["clean"]["differences"], rows["blurred"]["differences"]])
    assert rows["pooled"]["n_pairs"] == 8
    assert rows["pooled"]["differences"] == pytest.approx(halves.mean(axis=0))


def test_without_a_plan_all_later_arms_meet_all_earlier_ones_under_one_correction():
    frame = table_of({"c": noisy(0.6, seed=1), "a": noisy(0.65, seed=2), "b": noisy(0.7, seed=3)})
    report = analyse(frame)
    assert [(c["a"], c["b"]) for c in report["comparisons"]] == [("c", "a"), ("c", "b"), ("a", "b")]
    assert all(c["exploratory"] and not c["declared"] for c in report["comparisons"])
    assert report["comparisons"][0]["p_adjusted"] == pytest.approx(2 / 2**8)
    assert report["comparisons"][0]["p_holm"] == pytest.approx(3 * 2 / 2**8)
    assert report["claims"] == []


def test_a_table_of_curves_only_is_judged_by_its_last_common_epoch():
    frame = pd.concat([table_of({"a": noisy(0.6, seed=1), "b": noisy(0.6 + e / 50, seed=2)})
                       .assign(epoch=e) for e in (1, 2, 3)])  # fmt: skip
    report = analyse(frame)
    assert report["comparisons"][0]["mean_difference"] == pytest.approx(0.06, abs=0.005)
    assert any("last epoch" in w for w in report["warnings"])


@pytest.mark.parametrize("scores", [{"a": [0.5] * 8}, {"a": [0.5], "b": [0.6]}])
def test_one_arm_or_one_seed_is_described_and_not_compared(scores):
    report = analyse(table_of(scores))
    assert all(c["verdict"] == "invalid" for c in report["comparisons"])
    assert report["arms"][0]["mean"] == 0.5
    assert report["arms"][0]["reason"]


def test_unequal_budgets_are_flagged(study):
    runs = study["runs"]
    fewer = runs.drop(runs[(runs["phase"] == "search") & (runs["arm"] == "plain")].index[:2])
    report = analyse(study["results"], plan=study["plan"], runs=fewer)
    assert any("10 planned search trials, plain 8 (20 % fewer)" in w for w in report["warnings"])


def test_what_early_stopping_leaves_unspent_is_no_warning(study):
    runs = study["runs"].copy()
    spared = runs[(runs["phase"] == "search") & (runs["arm"] == "plain")].index[:5]
    runs.loc[spared, ["status", "epochs"]] = ["stopped", 1]
    report = analyse(study["results"], plan=study["plan"], runs=runs)
    spent = {row["arm"]: row["search_epochs"] for row in report["ledger"]}
    assert spent["plain"] < 0.8 * spent["better"]
    assert not any("budget" in w for w in report["warnings"])


def test_a_seed_of_the_search_is_no_confirmation(study):
    runs = study["runs"].copy()
    runs.loc[runs["phase"] == "search", "seed"] = 100
    report = analyse(study["results"], plan=study["plan"], runs=runs)
    assert report["comparisons"][0]["reason"] == "search_phase_scores"


def test_a_changed_number_is_found_and_the_same_report_agrees(study):
    old = analyse(study["results"], plan=study["plan"])
    new = analyse(study["results"], plan=study["plan"])
    assert differences(old, new) == []
    new["comparisons"][0]["mean_difference"] += 1e-6
    assert differences(old, new)[0].startswith("comparisons[0].mean_difference: ")


@pytest.mark.parametrize("scores", [
    {"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2)}, {"a": [0.5] * 8, "b": [0.5] * 8},
    {"a": [0.5], "b": [0.6]}, {"a": noisy(0.6, 3), "b": [0.5] * 3}, {"a": [0.5] * 8},
    {"a": noisy(0.6, 16, seed=1), "b": noisy(0.6, 16, seed=3)},
])  # fmt: skip
@pytest.mark.parametrize("margin", [None, 0.01])
def test_every_number_that_is_missing_has_its_reason(scores, margin):
    report = analyse(table_of(scores), margin=margin)
    wanted = {"mean_difference", "ci_low", "ci_high", "p_value", "p_t", "p_wilcoxon", "p_tost",
              "p_tost_adjusted", "dz", "dz_ci", "a12", "cliffs_delta", "win_rate"}  # fmt: skip
    for c in report["comparisons"]:
        missing = {name for name in wanted if c[name] is None or c[name] == [None, None]}
        assert missing <= set(c["absent"])
        assert all(c[name] in (None, [None, None]) for name in c["absent"])
        assert all(len(why) > 6 for why in c["absent"].values())
    for a in report["arms"]:
        assert None not in (a["ci_low"], a["sd"], a["iqm"]) or a["reason"]


def test_a_supported_claim_whose_simultaneous_interval_holds_zero_is_explained():
    """All eight differences are positive, of very different sizes: flips decide, t does not."""
    a = np.array(noisy(0.6, seed=1))
    gains = np.array([1, 1, 1, 1, 2, 2, 40, 60]) / 500
    for b, told in ((a + gains, True), (a + 0.05 + np.arange(8) / 500, False)):
        report = analyse(table_of({"a": a, "b": b}), plan=plan())
        assert report["claims"][0]["verdict"] == "supported"
        low, high = report["comparisons"][0]["simultaneous_ci"]
        assert (low < 0 < high) == told
        texts = " ".join(text for _, text in paragraphs(report, "answers"))
        assert ("one may hold 0 though its claim is supported" in texts) == told


def gap(b4: float, *, n: int = 8) -> dict:
    """a and b at M = 2 and M = 4: all improve on the way, and b alone by another amount."""
    frame = pd.concat(
        [
            table_of({"a": noisy(0.70, n, seed=1), "b": noisy(0.71, n, seed=2)}, condition="M2"),
            table_of({"a": noisy(0.74, n, seed=3), "b": noisy(b4, n, seed=4)}, condition="M4"),
        ]
    )
    claim = {"id": "G", "less_hurt": "b", "than": "a", "metric": METRIC, "from": "M2", "to": "M4"}
    levels = {"M2": {"num_positives": 2}, "M4": {"num_positives": 4}}
    report = analyse(frame, plan=plan([claim], conditions=levels, margin=0.01))
    return {"d": report["comparisons"][0]["differences"], "frame": frame} | report["claims"][0]


def test_a_gap_that_grows_from_one_condition_to_the_other_is_an_interaction():
    found = gap(b4=0.79)
    cells = found["frame"].pivot(index="seed", columns=["condition", "arm"], values="value")
    growth = (cells["M4", "b"] - cells["M4", "a"]) - (cells["M2", "b"] - cells["M2", "a"])
    assert found["d"] == pytest.approx(list(growth))
    assert found["verdict"] == "supported"
    assert "Going from M2 to M4, b improves by 4." in found["sentence"]
    assert "points more than a" in found["sentence"]


def test_a_gap_that_does_not_grow_is_refuted_in_words_that_fit():
    same = gap(b4=0.75)
    assert same["verdict"] == "refuted"
    assert "not more by the margin of 1.0 points" in same["sentence"]
    assert "points less than a" in gap(b4=0.73)["sentence"]
    # b degrades where it had 0.71, so that the two do not improve both.
    worse = gap(b4=0.65)["sentence"]
    assert "b degrades by" in worse
    assert "points more than a" in worse
