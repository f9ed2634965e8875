"""A claim about methods rests on replicates: the luck of one search is no sample."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known_truth import METRIC

from analysis.errors import TableError
from analysis.report import analyse, write_report
from analysis.statistics import split_variance
from analysis.verdicts import decide_at_look
from analysis.wording.paragraphs import beside


def replicated(
    effect=0.05, *, replicates=8, seeds=2, sd_search=0.01, sd_seed=0.01, seed=0, metric=METRIC
) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for r in range(1, replicates + 1):
        for arm, shift in (("a", 0), ("b", effect)):
            luck = rng.normal(0, sd_search)
            for s in range(seeds):
                value = 0.6 + shift + luck + rng.normal(0, sd_seed)
                rows.append((arm, r, 100 * r + s, metric, value))
    return pd.DataFrame(rows, columns=["arm", "replicate", "seed", "metric", "value"])


def plan(**changes) -> dict:
    return {
        "arms": {"a": {}, "b": {}},
        "search": {"replicates": 8, "trials_per_arm": 6, "metric": METRIC},
        "confirm": {"seeds": 2, "metrics": [METRIC]},
        "claims": [{"id": "C", "better": "b", "than": "a", "metric": METRIC}],
    } | changes


def test_the_unit_is_the_replicate_and_its_score_the_mean_over_seeds():
    frame = replicated()
    record = analyse(frame, plan=plan())["comparisons"][0]
    means = frame.groupby(["arm", "replicate"])["value"].mean().unstack("arm")
    assert (record["scope"], record["unit_of_analysis"]) == ("method", "replicate")
    assert (record["n_units"], record["n_pairs"], len(record["seeds"])) == (8, 8, 16)
    assert record["differences"] == pytest.approx((means["b"] - means["a"]).tolist())
    assert record["units"] == list(range(1, 9))
    assert record["p_value"] == 2 / 2**8


def test_duplicating_seeds_ten_times_changes_no_p():
    frame = replicated(0.01, seed=3)
    many = pd.concat([frame.assign(seed=frame["seed"] + 10_000 * i) for i in range(10)])
    once, ten = (analyse(f, plan=plan(margin=0.02))["comparisons"][0] for f in (frame, many))
    for name in ("p_value", "p_adjusted", "p_supports", "p_refutes", "p_t", "verdict"):
        assert once[name] == pytest.approx(ten[name]), name
    assert once["ci_low"] == pytest.approx(ten["ci_low"])


def test_variance_is_split_into_search_and_seed():
    rng = np.random.default_rng(1)
    luck = rng.normal(0, 2, 4000)
    within = luck[:, None] + rng.normal(0, 1, (4000, 3))
    search, seed = split_variance(within.mean(axis=1), within)
    assert (search, seed) == pytest.approx((2, 1), rel=0.05)
    record = analyse(replicated(), plan=plan())["comparisons"][0]
    assert record["sd_search"] >= 0
    assert record["sd_seed"] > 0
    alone = analyse(replicated(seeds=1), plan=plan())["comparisons"][0]
    assert alone["sd_search"] is None
    assert "two seeds" in alone["absent"]["sd_search"]


def test_the_sentence_says_what_was_tuned_how_often():
    sentence = analyse(replicated(), plan=plan())["claims"][0]["sentence"]
    assert "b, tuned by this search (6 trials, 8 times independently), is" in sentence
    assert "8 paired replicates" in sentence


def test_one_search_never_yields_a_verdict_about_methods():
    one = replicated(replicates=1, seeds=8)
    searched = plan(search={"replicates": 1, "metric": METRIC})
    claim = analyse(one, plan=searched)["claims"][0]
    assert (claim["verdict"], claim["reason"]) == ("undecided", "one_search")
    assert "search.replicates" in claim["sentence"]
    settings = searched | {"scope": "configuration", "search": {"trials_per_arm": 6}}
    claim = analyse(one, plan=settings)["claims"][0]
    assert claim["verdict"] == "supported"
    assert "another search may freeze others" in claim["sentence"]


def test_a_seed_that_one_arm_lacks_leaves_its_replicate_to_the_others():
    frame = replicated()
    lost = frame[~((frame["arm"] == "b") & (frame["seed"] == 300))]
    record = analyse(lost, plan=plan())["comparisons"][0]
    assert record["n_units"] == 8
    assert record["dropped"] == [
        {"seed": 300, "arm": "b", "condition": "default", "reason": "absent"}
    ]
    values = frame.set_index(["arm", "seed"])["value"]
    assert record["differences"][2] == pytest.approx(values["b", 301] - values["a", 301])
    (told,) = analyse(lost, plan=plan())["warnings"]
    assert "1 planned or half-paired scores are absent" in told
    assert "the first of b on seed 300 in replicate 3" in told


def test_a_replicate_whose_runs_all_broke_in_one_arm_is_dropped():
    frame = replicated().assign(status="finished")
    frame.loc[(frame["arm"] == "b") & (frame["replicate"] == 3), "status"] = "failed"
    record = analyse(frame, plan=plan(chance=0.59))["comparisons"][0]
    assert record["n_units"] == 7
    assert 3 not in record["units"]
    assert record["failures"]["b"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f[~((f["arm"] == "b") & (f["replicate"] == 8))],
         r"b has no rows of replicate 8[\s\S]*the same replicates in every arm"),
        (lambda f: f.assign(seed=f["seed"] % 100), r"seed 0 is in the replicates 1 and 2"),
        (lambda f: f.assign(replicate=f["replicate"].where(f["replicate"] != 2)),
         r"replicate is empty in 4 rows"),
    ],
)  # fmt: skip
def test_replicates_that_cannot_be_are_refused(change, message):
    with pytest.raises(TableError, match=message):
        analyse(change(replicated()), plan=plan())


def test_an_empty_column_is_no_column():
    frame = replicated(seeds=1)
    bare = frame.drop(columns="replicate")
    settings = plan(search={}, scope="configuration")
    assert analyse(frame.assign(replicate=""), plan=settings) == analyse(bare, plan=settings)


def test_a_replicate_that_is_still_to_come_is_no_fault():
    frame = replicated()
    early = frame[~((frame["arm"] == "b") & (frame["replicate"] == 8))]
    runs = frame[["arm", "replicate", "seed"]].assign(phase="confirm", status="planned")
    report = analyse(early, plan=plan(), runs=runs)
    assert report["comparisons"][0]["n_units"] == 7


@pytest.mark.slow
def test_the_report_shows_every_replicates_winner_and_both_sds(tmp_path):
    frame = replicated()
    runs = [("confirm", arm, r, s, None, None, "{}") for arm, r, s in
            frame[["arm", "replicate", "seed"]].itertuples(index=False)]  # fmt: skip
    for arm in "ab":
        for r in range(1, 9):
            for t in range(3):
                config = f'{{"rate": {0.001 * (1 + (r * t) % 5)}, "split_seed": {r}}}'
                runs.append(("search", arm, r, 9000 + r, t, 0.5 + 0.01 * t, config))
    names = ["phase", "arm", "replicate", "seed", "trial", "value", "config"]
    table = pd.DataFrame(runs, columns=names).assign(status="finished", epochs=3, seconds=1.0)
    report = write_report(frame, plan=plan(), runs=table, out=tmp_path)
    assert [w["replicate"] for w in report["search"][0]["winners"]] == list(range(1, 9))
    assert (tmp_path / "figures" / "winners.svg").exists()
    page = (tmp_path / "report.html").read_text()
    first_screen = page[: page.index("<nav")]
    record = report["comparisons"][0]
    for sd, between in ((record["sd_search"], "searches"), (record["sd_seed"], "seeds")):
        assert f"{100 * sd:.1f} points between {between}" in first_screen
    assert "tied with" not in first_screen  # no curve shows how much trainings vary
    assert 'href="#figure-winners"' in first_screen
    assert "All tests are paired" in page
    assert "Winners&#39; settings of each replicate" in page
    assert "new searches and seeds" in page


LOOKS = {"seeds": 2, "metrics": [METRIC], "looks": [8, 12, 16]}


def test_a_look_decides_what_is_clear_and_leaves_the_rest_open():
    wide = plan(search={"replicates": 16}, confirm=LOOKS)
    clear, faint = replicated(0.1), replicated(0.0, seed=5)
    assert decide_at_look(wide, clear) == {"C": "supported"}
    assert decide_at_look(wide, faint) == {"C": None}
    before = clear[clear["replicate"] <= 7]
    assert decide_at_look(wide, before) == {"C": None}
    report = analyse(clear, plan=wide, provenance={"looks": [{"units": 8}]})
    assert report.verdicts == {"C": "supported"}
    assert report["comparisons"][0]["decided_at"] == 8
    peeked = analyse(clear, plan=wide, provenance={"looks": [{"units": 5}]})
    assert peeked["comparisons"][0]["reason"] == "unplanned_looks"


def test_beyond_the_last_look_the_e_process_decides():
    short = plan(search={"replicates": 6}, confirm=LOOKS | {"looks": [3, 5]})
    assert decide_at_look(short, replicated(0.1, replicates=5)) == {"C": None}
    assert decide_at_look(short, replicated(0.1, replicates=12)) == {"C": "supported"}
    assert decide_at_look(short, replicated(0.0, replicates=12)) == {"C": None}
    for replicates, said in ((12, "plan and growth together err in up to 0.1"), (5, None)):
        report = analyse(replicated(0.1, replicates=replicates), plan=short)
        (told,) = [text for text in beside(report, "C") if "decided" in text] or [None]
        assert said is None or said in told


def test_looks_beyond_the_last_planned_one_are_free(tmp_path):
    short = plan(search={"replicates": 14}, confirm=LOOKS | {"looks": [3, 5]})
    table = replicated(0.1, replicates=12)
    assert analyse(table, plan=short, provenance={"looks": [{"units": 7}]}).verdicts == {
        "C": "supported"
    }
    again = {"looks": [{"units": 7, "why": "in another study", "unplanned": True}]}
    found = analyse(table, plan=short, provenance=again)
    assert found["claims"][0]["reason"] == "unplanned_looks"
    assert "in another study" in found["warnings"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"confirm": LOOKS | {"looks": [12, 8]}}, "confirm.looks is"),
        ({"confirm": LOOKS}, r"last of confirm.looks is 16, after the last replicate \(8\)"),
        ({"scope": "metod"}, "try: scope: method"),
        ({"scope": "method", "search": {}}, "there is no search"),
        ({"correction": "hulm"}, "try: correction: holm"),
    ],
)
def test_faults_of_scope_and_looks(changes, message):
    with pytest.raises(TableError, match=message):
        analyse(replicated(), plan=plan(**changes))


def test_holm_can_be_asked_for():
    record = analyse(replicated(), plan=plan(correction="holm"))["comparisons"][0]
    assert record["p_adjusted"] == record["p_holm"] == 2 / 2**8
    assert record["verdict"] == "better"
