"""`from analysis import analyse`: a typed report that is still a mapping."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from known_truth import METRIC, noisy, table_of

import analysis
from analysis import ClaimAnswer, Report, TableError, analyse, write_report

ROOT = Path(__file__).parents[2]
CLAIM = {"better": "b", "than": "a", "metric": METRIC}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return table_of({"a": noisy(0.6, seed=1), "b": noisy(0.65, seed=2), "c": noisy(0.6, seed=3)})


def test_claims_need_no_plan_and_are_answered_as_one_would(table):
    plan = {"arms": {"a": {}, "b": {}, "c": {}}, "claims": [{"id": "C1", **CLAIM}]}
    by_plan = analyse(table, plan=plan)
    report = analyse(table, claims=[CLAIM])
    assert report.verdicts == {"C1": "supported"}
    assert report["claims"] == by_plan["claims"]
    assert report["comparisons"] == by_plan["comparisons"]
    assert not report["claims"][0]["exploratory"]


def test_a_typed_answer_holds_the_numbers_of_its_comparison(table):
    report = analyse(table, claims=[CLAIM, CLAIM | {"than": "c"}])
    answer, record = report.claims[0], report["comparisons"][0]
    assert isinstance(answer, ClaimAnswer)
    assert answer.sentence == report["claims"][0]["sentence"]
    assert answer.difference == record["mean_difference"]
    assert answer.interval == (record["ci_low"], record["ci_high"])
    assert answer.p_supports == record["p_supports"] == answer.p == 2 / 2**8
    assert answer.p_refutes == record["p_refutes"] == 1


def test_what_cannot_be_had_is_none(table):
    answer = analyse(table[table["seed"] < 2], claims=[CLAIM]).claims[0]
    assert (answer.verdict, answer.interval, answer.p) == ("invalid", None, None)


def test_claims_that_do_not_fit_the_table_are_refused(table):
    with pytest.raises(TableError, match=r"no arm is called bb[\s\S]*try: better: b"):
        analyse(table, claims=[CLAIM | {"better": "bb"}])
    with pytest.raises(TableError, match=r"beside a plan[\s\S]*under `claims:`"):
        analyse(table, claims=[CLAIM], plan={})


def test_margin_and_alpha_belong_to_the_claims(table):
    same = {"equivalent": "c", "to": "a", "metric": METRIC}
    report = analyse(table, claims=[same], margin=0.02, alpha=0.1)
    assert report.verdicts == {"C1": "supported"}
    assert report["design"]["alpha"] == 0.1
    assert not report["claims"][0]["exploratory"]


def test_without_claims_verdicts_are_those_of_the_comparisons(table):
    report = analyse(table)
    assert report.claims == []
    assert report.verdicts[f"b - a, {METRIC}, default"] == "better"


def test_it_shows_its_verdicts_and_escapes_what_it_shows(table):
    named = table.assign(arm=table["arm"].replace({"b": "<b>new</b>"}))
    report = analyse(named, claims=[CLAIM | {"better": "<b>new</b>"}])
    assert repr(report).startswith("C1: Supported: <b>new</b> is ")
    page = report._repr_html_()
    assert "<b>new" not in page
    assert "&lt;b&gt;new" in page
    assert page.count("<tr>") == 2


@pytest.mark.slow
def test_it_writes_one_page_or_the_whole_folder(table, tmp_path):
    report = analyse(table, claims=[CLAIM])
    text = report.to_html(tmp_path / "one.html").read_text()
    assert text == (report.save(tmp_path / "all") / "report.html").read_text()
    assert write_report(table, claims=[CLAIM], out=tmp_path / "again") == report
    assert isinstance(report, Report)


def test_the_module_keeps_its_name_and_the_package_its_speed():
    assert isinstance(analysis.report, ModuleType)
    with pytest.raises(AttributeError, match="nothing"):
        _ = analysis.nothing
    code = "import analysis, sys; sys.exit(any(m in sys.modules for m in ('pandas', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
