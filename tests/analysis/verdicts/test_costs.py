"""Claims about what a training costs: from the tables of a study to the verdict."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.figures import draw, to_svg
from analysis.rendering.html import to_html
from analysis.rendering.latex import to_latex
from analysis.rendering.markdown import to_markdown
from analysis.report import analyse
from analysis.tables import report_tables
from analysis.verdicts import decide_at_look

SEEDS = range(1, 9)
PLAN = {
    "arms": {"cheap": {}, "dear": {}},
    "conditions": {"clean": {}},
    "metrics": {
        "test/top1": {"better": "higher", "unit": "fraction"},
        "views": {"better": "lower", "unit": "views", "kind": "cost"},
        "seconds": {"better": "lower", "unit": "s", "kind": "cost"},
    },
    "confirm": {"seeds": 8, "metrics": ["test/top1"]},
    "claims": [
        {"id": "A", "better": "dear", "than": "cheap", "metric": "test/top1"},
        {"id": "V", "better": "cheap", "than": "dear", "metric": "views"},
        {"id": "S", "better": "cheap", "than": "dear", "metric": "seconds"},
        {"id": "W", "better": "dear", "than": "cheap", "metric": "seconds"},
    ],
    "margin": 0.01,
    "chance": 0.1,
}


def tables(epochs: dict[str, int], broken: tuple = ()) -> dict[str, pd.DataFrame]:
    """Results with curves of views and no seconds, as a study writes them, and the runs."""
    rows, runs = [], []
    for arm, per_epoch in (("cheap", 100), ("dear", 150)):
        for seed in SEEDS:
            failed = (arm, seed) in broken
            status = "diverged" if failed else "finished"
            spent = epochs[arm] * per_epoch / 10 + 0.1 * seed * (2 if arm == "dear" else 1)
            runs.append(
                ("confirm", arm, "clean", seed, status, epochs[arm], 1 if failed else spent)
            )
            for epoch in range(1, epochs[arm] + 1):
                rows.append((arm, "clean", seed, epoch, "views", float(per_epoch * epoch)))
            if not failed:
                score = (
                    0.6 + 0.001 * ((seed * 3) % 5) + (0.05 + 0.001 * (seed % 3)) * (arm == "dear")
                )
                rows.append((arm, "clean", seed, None, "test/top1", score))
    return {
        "results": pd.DataFrame(
            rows, columns=["arm", "condition", "seed", "epoch", "metric", "value"]
        ),
        "runs": pd.DataFrame(
            runs, columns=["phase", "arm", "condition", "seed", "status", "epochs", "seconds"]
        ),
    }


def claims_of(given, **changes) -> dict[str, dict]:
    report = analyse(given["results"], plan=PLAN | changes, runs=given["runs"])
    return {c["claim"]: c for c in report["comparisons"] if c["declared"]}


def test_the_last_figure_of_each_run_is_compared_each_at_its_own_epoch():
    found = claims_of(tables({"cheap": 4, "dear": 6}))
    assert found["V"]["differences"] == [4 * 100 - 6 * 150] * 8
    assert found["S"]["differences"] == pytest.approx([40 - 90 - 0.1 * seed for seed in SEEDS])
    assert [found[c]["verdict"] for c in "AVSW"] == ["better", "better", "better", "worse"]


def test_a_cost_that_differs_by_the_same_in_every_unit_is_decided_by_its_sign_alone():
    """Of 2⁸ sign patterns two are as extreme: none flipped and all."""
    record = claims_of(tables({"cheap": 4, "dear": 4}))["V"]
    assert record["mean_difference"] == -200
    assert record["ci_low"] is None
    assert record["p_value"] == 2 / 2**8
    alone = claims_of(tables({"cheap": 4, "dear": 4}), claims=PLAN["claims"][1:2])["V"]
    assert alone["p_supports"] == 2 / 2**8


def test_a_report_has_room_for_claims_without_an_interval():
    given = tables({"cheap": 4, "dear": 4})
    report = analyse(given["results"], plan=PLAN, runs=given["runs"])
    assert "cheap is 200.000 views below dear" in report["claims"][1]["sentence"]
    all_tables, drawings = report_tables.tables(report), draw(report)
    svgs = {drawing.name: to_svg(drawing) for drawing in drawings}
    assert "no interval" in to_html(report, drawings, all_tables, svgs)
    assert "no interval" in to_markdown(report, drawings, all_tables)
    assert "no interval" in to_latex(report, drawings, all_tables)


def test_equal_costs_support_nothing_and_refute_nothing():
    given = tables({"cheap": 6, "dear": 4})
    record = claims_of(given)["V"]
    assert (record["verdict"], record["reason"]) == ("invalid", "identical_scores")


def test_the_margin_is_one_of_scores():
    found = claims_of(tables({"cheap": 4, "dear": 4}))
    assert [found[c]["margin"] for c in "AVS"] == [0.01, None, None]


def test_a_run_that_broke_down_is_given_no_cost():
    """Scored at chance it would have taken a tenth of a second."""
    record = claims_of(tables({"cheap": 4, "dear": 4}, broken=(("dear", 3),)))["S"]
    assert record["n_pairs"] == 7
    assert record["sensitivity"]["scored_at_chance"] is None
    assert (record["verdict"], record["reason"]) == ("undecided", "missing_sensitive")


def test_looks_see_the_costs_that_the_report_sees():
    given = tables({"cheap": 4, "dear": 4})
    assert decide_at_look(PLAN, given["results"], runs=given["runs"]) == {
        "A": "supported", "V": "supported", "S": "supported", "W": "refuted"
    }  # fmt: skip


def test_without_a_table_of_runs_nobody_knows_the_seconds():
    given = tables({"cheap": 4, "dear": 4})
    report = analyse(given["results"], plan=PLAN)
    (record,) = [c for c in report["comparisons"] if c["claim"] == "S"]
    assert (record["verdict"], record["reason"]) == ("invalid", "too_few_pairs")
