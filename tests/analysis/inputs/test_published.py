"""What papers printed: read as written, refused where it fits no claim, shown, never decisive."""

from __future__ import annotations

import copy

import pytest

from analysis.errors import TableError
from analysis.inputs.plan import read_plan
from analysis.inputs.published import check_published
from analysis.rendering import latex
from analysis.rendering.html import to_html
from analysis.rendering.markdown import to_markdown
from analysis.rendering.write import to_csv
from analysis.report import analyse
from analysis.tables import tables

PLAN = {
    "arms": {"contrastive": {}, "debiased_pos": {}},
    "conditions": {"clean": {}, "noisy": {}},
    "metrics": {"views": {"better": "lower", "unit": "views", "kind": "cost"}},
    "claims": [
        {"id": "F1", "better": "debiased_pos", "than": "contrastive", "metric": "test/knn_top1"},
        {"id": "F3", "less_hurt": "debiased_pos", "than": "contrastive", "metric": "test/knn_top1",
         "from": "clean", "to": "noisy"},
        {"id": 7, "better": "contrastive", "than": "debiased_pos", "metric": "views"},
    ],
}  # fmt: skip
GOOD = {
    "F1": {"debiased_pos": 0.7676, "contrastive": "~0.744", "source": "Figure 1"},
    "F3": {"contrastive": {"clean": 0.744, "noisy": 0.688},
           "debiased_pos": {"clean": 0.7676, "noisy": "~0.732"}},
    7: {"contrastive": 3_000_000, "debiased_pos": 2_000_000.5},
}  # fmt: skip


def test_figures_are_read_and_differences_have_the_sign_of_ours():
    first, third, cost = read_plan(PLAN | {"published": GOOD}).published
    assert first.difference == pytest.approx(0.7676 - 0.744)
    assert (first.approximate, first.source) == (True, "Figure 1")
    assert [(f.arm, f.condition, f.approximate) for f in first.figures] == [
        ("debiased_pos", None, False), ("contrastive", None, True)
    ]  # fmt: skip
    # The noise costs debiased_pos 3.56 points and contrastive 5.6: 2.04 points less.
    assert third.difference == pytest.approx(-0.0356 + 0.056)
    assert cost.difference == pytest.approx(999_999.5)


def test_a_source_alone_says_that_a_paper_has_it_in_words():
    (said,) = read_plan(PLAN | {"published": {"F1": {"source": "Section 4"}, "F3": None}}).published
    assert (said.figures, said.difference, said.source) == ((), None, "Section 4")


def changed(claim, **entry):
    return {**GOOD, claim: {**GOOD.get(claim, {}), **entry}}


@pytest.mark.parametrize(
    ("published", "path", "what", "try_"),
    [
        ({"F1b": GOOD["F1"]}, "F1b", "no claim is called F1b", "F1"),
        ({"Table 1": {}}, "Table 1", "no claim is called Table 1", "null"),
        ({"F1": 0.0236}, "F1", "published.F1 is 0.0236", "source"),
        (changed("F1", contrastiv=0.7), "contrastiv", "not about an arm contrastiv", "contrastive"),
        (changed("F1", contrastive=74.4), "contrastive", "is 74.4", "contrastive: 0.744"),
        (changed("F1", contrastive="~74.4 %"), "contrastive", "~74.4 %", "contrastive: ~0.744"),
        (changed("F1", contrastive=True), "contrastive", "is True", "0.744"),
        (changed("F1", contrastive="about 0.7"), "contrastive", "about 0.7", "0.744"),
        (changed("F1", contrastive=float("nan")), "contrastive", "is nan", "0.744"),
        (changed("F1", source=3), "source", "source is 3", "Table 1"),
        ({"F1": {"debiased_pos": 0.7676, "source": "x"}}, "F1", "no figure of contrastive", "0.7"),
        ({"F1": {}}, "F1", "no figure of debiased_pos and contrastive", "0.7"),
        (changed("F3", contrastive=0.744), "contrastive", "goes from clean to noisy", "noisy: 0.7"),
        (changed("F3", contrastive={"clean": 0.7}), "contrastive", "clean to noisy", "noisy: 0.7"),
        (changed("F3", contrastive={"clean": 1.7, "noisy": 0.7}), "clean", "is 1.7", "0.017"),
        (changed(7, contrastive="3 million"), "contrastive", "3 million", "1.5"),
        (5, "published", "published is 5", "published: {F1"),
    ],
)
def test_what_fits_no_claim_is_one_fault(published, path, what, try_):
    (found,) = check_published(PLAN | {"published": published})
    assert found[0][-1] == path
    assert what in found[1]
    assert found[2]
    assert try_ in found[3]


def test_a_plan_with_a_faulty_figure_is_refused():
    with pytest.raises(TableError, match="no claim is called F2"):
        read_plan(PLAN | {"published": {"F2": GOOD["F1"]}})


def test_a_faulty_claim_is_not_reported_a_second_time():
    plan = PLAN | {"claims": [{"id": "F1", "better": "debiased_pos"}], "published": {"F1": {
        "debiased_pos": 0.7, "contrastive": 0.6}}}  # fmt: skip
    assert check_published(plan) == []


@pytest.fixture(scope="module")
def reports(study):
    """The report of a small study, and the same with figures of a paper."""
    plan = copy.deepcopy(study["plan"])
    plan["published"] = {
        "F1": {"better": "~0.7", "plain": 0.6, "source": "Fig. 1 & 2"},
        "F2": {"source": "Section 4"},
        "F3": {"better": {"clean": 0.7, "blurred": 0.6}, "plain": {"clean": 0.7, "blurred": 0.1}},
    }
    given = {key: study[key] for key in ("runs", "provenance")}
    plain = analyse(study["results"], plan=study["plan"], **given)
    return plain, analyse(study["results"], plan=plan, **given)


def test_published_figures_move_no_number(reports):
    without, with_them = reports
    assert {k: v for k, v in without.items() if k != "published"} == {
        k: v for k, v in with_them.items() if k != "published"
    }
    assert without["published"] == []


def test_whether_the_published_difference_lies_within_the_interval(reports):
    rows = {row["claim"]: row for row in reports[1]["published"]}
    ours = {c["claim"]: c for c in reports[1]["comparisons"]}
    for claim, difference in (("F1", 0.1), ("F3", 0.5)):
        row, found = rows[claim], ours[claim]
        assert row["published_difference"] == pytest.approx(difference)
        inside = found["ci_low"] <= difference <= found["ci_high"]
        assert row["within_interval"] is inside
    assert rows["F3"]["within_interval"] is False  # half of all images: no small study finds that
    assert rows["F2"]["within_interval"] is None


def test_every_form_of_the_report_shows_them(reports):
    without, with_them = (tables(report) for report in reports)
    (shown,) = [table for table in with_them if table.name == "published"]
    forms = [
        to_html(reports[1], [], with_them, {}),
        to_markdown(reports[1], [], with_them),
        latex.table(shown),
        to_csv(shown),
    ]
    for text in forms:
        assert "Section 4" in text
        assert "Fig. 1 " in text
    for text in forms[:3]:
        assert "Published and found" in text
        assert "70 " in text
        assert "10.0 points" in text.replace("\u00a0", " ").replace("~", " ")
    assert "published" not in {table.name for table in without}
