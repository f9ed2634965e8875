"""Curves, costs and searches against their equations."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.figures.curves import advantage, learning
from analysis.inputs.results_table import read_results
from analysis.report import analyse
from analysis.sections.cost import trade_off
from analysis.sections.curves import last_figure
from analysis.statistics.curve_bands import max_t, simultaneous_band
from analysis.statistics.expected_best import expected_best, expected_best_biased
from analysis.statistics.paired import sign_flip, t_interval
from analysis.statistics.secondary_tests import friedman
from analysis.statistics.survival import median_time


def test_max_t_counts_every_joint_flip_of_whole_curves():
    d = np.random.default_rng(4).normal([0.5, 0.0, 1.0], 1, (6, 3))

    def t(x):
        return abs(x.mean() / (x.std(ddof=1) / np.sqrt(6)))

    null = [max(t(np.array(signs) * d[:, e]) for e in range(3))
            for signs in itertools.product((1, -1), repeat=6)]  # fmt: skip
    by_hand = [np.mean([m >= t(d[:, e]) - 1e-9 for m in null]) for e in range(3)]
    assert max_t(d) == pytest.approx(by_hand)


def test_max_t_of_one_epoch_is_the_primary_test_and_is_never_below_it():
    d = np.random.default_rng(5).normal(0.6, 1, (8, 5))
    single = [sign_flip(d[:, e])[0] for e in range(5)]
    assert max_t(d[:, :1]) == pytest.approx(single[0])
    assert (max_t(d) >= np.array(single) - 1e-12).all()


def test_a_band_of_one_epoch_is_the_t_interval_and_of_many_lies_between_t_and_bonferroni():
    curves = np.random.default_rng(6).normal(0.5, 0.1, (8, 10))
    low, high = simultaneous_band(curves[:, :1])
    assert (low[0], high[0]) == pytest.approx(t_interval(curves[:, 0]))
    width = np.array(simultaneous_band(curves)[1]) - curves.mean(axis=0)
    se = stats.sem(curves, axis=0)
    assert (width > stats.t.ppf(0.975, 7) * se).all()
    assert (width <= stats.t.ppf(1 - 0.025 / 10, 7) * se + 1e-12).all()


def test_epochs_without_spread_have_no_band():
    curves = np.random.default_rng(7).normal(0.5, 0.1, (6, 3))
    curves[:, 1] = 0.5
    low, _ = simultaneous_band(curves)
    assert low[1] is None
    assert low[0] is not None


def test_expected_best_is_the_mean_over_all_subsets():
    x = np.array([0.3, 0.9, 0.5, 0.6])
    by_hand = [np.mean([max(s) for s in itertools.combinations(x, k)]) for k in range(1, 5)]
    assert expected_best(x) == pytest.approx(by_hand)
    lowest = [np.mean([min(s) for s in itertools.combinations(x, k)]) for k in range(1, 5)]
    assert expected_best(x, higher=False) == pytest.approx(lowest)
    with_return = np.mean([max(s) for s in itertools.product(x, repeat=3)])
    assert expected_best_biased(x)[2] == pytest.approx(with_return)


def test_runs_that_never_arrive_are_censored():
    found = median_time(np.array([2.0, 3.0, 4.0, 10.0]), np.array([True, True, True, False]))
    assert found["median"] == 3.0
    few = median_time(np.array([2.0, 10.0, 10.0]), np.array([True, False, False]))
    assert few["median"] is None
    assert few["reason"] == "fewer than half reached it"


def test_the_front_holds_what_no_arm_dominates(study):
    report = analyse(study["results"], plan=study["plan"])
    rows = [r for r in report["cost"]["trade_off"] if r["condition"] == "clean"]
    # Both arms take 12 s; only the better one is on the front.
    assert {r["arm"]: r["pareto"] for r in rows} == {"plain": False, "better": True}
    assert trade_off.__doc__


def test_friedman_and_critical_difference_are_demsars():
    table = np.random.default_rng(8).normal([0, 1, 3], 1, (10, 3))
    found = friedman(table, ["a", "b", "c"])
    assert found["p_value"] == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)
    # Demšar's Table 5: q.05 = 2.343 for 3 arms.
    assert found["critical_difference"] == pytest.approx(2.343 * np.sqrt(12 / 60), abs=1e-3)
    assert found["mean_ranks"]["c"] < found["mean_ranks"]["a"]


def test_the_search_is_summed_up_apart(study):
    report = analyse(study["results"], plan=study["plan"], runs=study["runs"])
    plain = report["search"][0]
    assert plain["complete"] == 8
    assert plain["best"]["value"] == pytest.approx(0.58)
    assert plain["early_stopping"]["epochs"] == 8
    assert plain["early_stopping"]["seconds"] == pytest.approx(16)
    curse = plain["winners_curse"]
    assert curse["difference"] == pytest.approx(0.58 - curse["confirmed_mean"])
    assert plain["importance"]["settings"] == []
    assert "study.report" in plain["importance"]["reason"]


def test_importance_is_passed_on_as_it_was_computed(study):
    given = {"settings": [{"setting": "temperature"}], "reason": None}
    report = analyse(study["results"], plan=study["plan"], runs=study["runs"],
                     importance={"plain": given})  # fmt: skip
    assert report["search"][0]["importance"] == given
    assert report["search"][1]["importance"]["settings"] == []


def with_test_curve(study, epochs=(1, 2)):
    """The study with a curve of its test metric at early epochs, each 0.1 below the final one."""
    final = study["results"][study["results"]["metric"] == "test/knn_top1"]
    early = [final.assign(epoch=e, value=final["value"] - 0.1, correct=final["correct"] - 50)
             for e in epochs]  # fmt: skip
    claims = [{"id": "E", "better": "better", "than": "plain", "under": "clean",
               "metric": "auc(test/knn_top1, epochs 1-2)"}]  # fmt: skip
    return pd.concat([study["results"], *early]), study["plan"] | {"claims": claims}


def test_a_claim_on_a_test_window_is_compared_with_the_final_figures(study):
    table, plan = with_test_curve(study)
    report = analyse(table, plan=plan)
    claim, end = (
        next(c for c in report["comparisons"] if (c["claim"], c["metric"], c["condition"]) == at)
        for at in (
            ("E", "auc(test/knn_top1, epochs 1-2)", "clean"),
            (None, "test/knn_top1", "clean"),
        )
    )
    # Each run's window is 0.1 below its final figure, so the differences are the same.
    assert claim["differences"] == pytest.approx(end["differences"])
    assert claim["early_minus_late"] is None  # which leaves nothing to test
    lower = table["epoch"].eq(2) & table["arm"].eq("better") & table["metric"].eq("test/knn_top1")
    shift = np.where(lower, 10 * (table["seed"] % 3), 0)
    table = table.assign(correct=table["correct"] - shift, value=table["value"] - shift / 500)
    found = analyse(table, plan=plan)["comparisons"][0]["early_minus_late"]
    assert found["last_epoch"] is None
    # Half of the mean shift: one of two epochs. Seeds 100 to 107 leave 1, 2, 0, 1, 2, 0, 1, 2.
    assert found["mean_difference"] == pytest.approx(-(9 / 8) * 10 / 500 / 2)


def test_an_early_curve_gives_no_threshold_and_no_learning_curve_of_its_own(study):
    table, plan = with_test_curve(study)
    report = analyse(table, plan=plan)
    curves = {(e["metric"], e["condition"]): e for e in report["curves"]}
    early = curves["test/knn_top1", "clean"]
    assert early["ends_early"]
    assert early["arms"][0]["epochs"] == [1, 2]
    assert early["pairs"][0]["epochs"] == [1, 2]
    assert not curves["val/knn_top1", "clean"]["ends_early"]
    assert {row["metric"] for row in report["cost"]["time_to"]} == {"val/knn_top1"}
    assert learning(report).title == "Learning curves: val/knn_top1"
    assert advantage(report).title == "Difference of curves: test/knn_top1"


def test_a_curve_to_the_last_epoch_ends_there_and_an_early_one_with_the_final_figure(study):
    for last, expected in ((6, (6, 6)), (5, None)):
        table, _ = with_test_curve(study, epochs=range(1, last + 1))
        assert last_figure(read_results(table), "test/knn_top1").window == expected
    assert last_figure(read_results(table), "val/knn_top1").window == (6, 6)


@pytest.mark.parametrize(
    ("metric", "searched", "said"),
    [
        ("auc(val/knn_top1, epochs 1-2)", "val/knn_top1", "the validation split"),
        ("auc(val/knn_top1, epochs 1-2)", ["val/loss", "views"], "the validation split"),
        ("auc(val/knn_top1, epochs 1-2)", None, None),
        ("test/knn_top1", "val/knn_top1", None),
        ("test/knn_top1", "test/knn_top1", "test/knn_top1"),  # of a function that names it so
    ],
)
def test_a_claim_on_what_selected_the_winners_says_so(study, metric, searched, said):
    claim = {"id": "V", "better": "better", "than": "plain", "under": "clean", "metric": metric}
    plan = {**study["plan"], "claims": [claim], "search": {"under": "clean", "metric": searched}}
    if searched is None:
        del plan["search"]
    report = analyse(study["results"], plan=plan)
    sentence = f" This is a claim about {said}, on which the winners were selected."
    assert (sentence in report["claims"][0]["sentence"]) == (said is not None)
    assert ("selected" in report["claims"][0]["sentence"]) == (said is not None)
