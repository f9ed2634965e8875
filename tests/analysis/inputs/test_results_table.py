"""Tables that cannot be analysed: each is refused, with what is allowed and what to try."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.errors import TableError
from analysis.inputs.results_table import read_results
from analysis.report import analyse, main, write_report

HEADER = "arm,condition,seed,epoch,metric,value\n"
ROW = "a,clean,1,,test/acc,0.5\n"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "the table has no rows"),
        (HEADER, "the table has no rows"),
        ("arm,seed,metric\na,1,m\n", r"no column 'value'"),
        ("arm,sed,metric,value\na,1,m,0.5\n", r"unknown column 'sed'[\s\S]*rename it to 'seed'"),
        (HEADER + ROW + "a,clean,2,,test/acc,nan\n", r":3: value is 'nan'"),
        (HEADER + ROW + "a,clean,2,,test/acc,inf\n", r":3: value is 'inf'"),
        (HEADER + ROW + "a,clean,2,,test/acc,good\n", r":3: value is 'good'"),
        (HEADER + ROW + "a,clean,2,,test/acc,\n", r":3: value is empty"),
        (HEADER + ROW + "a,clean,2,one,test/acc,0.5\n", r":3: epoch is 'one'"),
        (HEADER + ROW + ",clean,2,,test/acc,0.5\n", r":3: arm is empty"),
        (HEADER + ROW + "a,clean,,,test/acc,0.5\n", r":3: seed is empty"),
        (HEADER + ROW + "a,clean,2,,test/acc,87.5\n", r"is it in percent\?[\s\S]*--percent"),
        (HEADER + ROW + "a,clean,2,,test/acc,-0.5\n", r":3: test/acc is -0\.5, which is no"),
        (HEADER + '"a,clean', "not readable as a table"),
        ("arm;seed;metric;value\na;1;m;0,5\n", r"no column 'arm'[\s\S]*by commas"),
    ],
)  # fmt: skip
def test_a_bad_csv_is_refused_in_one_message(tmp_path, text, match, capsys):
    file = tmp_path / "results.csv"
    file.write_text(text)
    with pytest.raises(TableError, match=match) as error:
        read_results(file)
    assert "allowed:" in str(error.value)
    assert "try:" in str(error.value)
    assert main([str(file), "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert not shown.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("counts", "match"),
    [((60, 100), "correct 60 of total 100"), ((50.5, 101), r"correct 50\.5"),
     ((50, np.nan), "correct 50 of total nan")],
)  # fmt: skip
def test_counts_must_give_the_value(counts, match):
    frame = pd.DataFrame({"arm": ["a"], "seed": [1], "metric": ["test/acc"], "value": [0.5],
                          "correct": [counts[0]], "total": [counts[1]]})  # fmt: skip
    with pytest.raises(TableError, match=match):
        read_results(frame)


def test_an_unknown_status_is_refused():
    frame = pd.DataFrame({"arm": ["a"], "seed": [1], "metric": ["m"], "value": [0.5],
                          "status": ["finishd"]})  # fmt: skip
    with pytest.raises(TableError, match=r"'finishd'[\s\S]*'finished'"):
        read_results(frame)


def test_a_missing_file_is_refused(tmp_path, capsys):
    assert main([str(tmp_path / "none.csv")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_text_that_is_not_utf8_is_refused(tmp_path, capsys):
    (tmp_path / "r.csv").write_bytes("arm,seed,metric,value\ncafé,1,m,0.5\n".encode("latin-1"))
    assert main([str(tmp_path / "r.csv"), "--out", str(tmp_path / "out")]) == 2
    assert "not UTF-8 text (byte " in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["parquet", "pq"])
def test_a_bad_parquet_is_refused_with_its_row(tmp_path, suffix, capsys):
    file = tmp_path / f"results.{suffix}"
    frame = pd.DataFrame({"arm": ["a", "a"], "seed": [1, 2], "metric": "test/acc"})
    for value, told in ((np.inf, "row 1: value is 'inf'"), (np.nan, "row 1: value is empty"),
                        (61.0, "row 1: test/acc is 61, which is not a fraction")):  # fmt: skip
        frame.assign(value=[0.5, value]).to_parquet(file)
        assert main([str(file), "--out", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
    frame.assign(vlaue=0.5).to_parquet(file)
    assert main([str(file)]) == 2
    assert "rename it to 'value'" in capsys.readouterr().err
    for broken in (b"", b"arm,seed\n", file.read_bytes()[:-40]):
        file.write_bytes(broken)
        assert main([str(file)]) == 2
        assert "not readable as a table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--percent"], "fractions already"),
        (["--chance", "10"], "chance is 10, and accuracies are fractions; is it in percent?"),
        (["--margin", "50"], "margin is 50, and accuracies are fractions"),
        (["--margin", "-1"], "margin is -1.0"),
        (["--margin", "nan"], "margin is nan"),
        (["--alpha", "2"], "alpha is 2.0"),
    ],
)
def test_options_in_the_wrong_unit_are_asked_about(tmp_path, options, told, capsys):
    (tmp_path / "r.csv").write_text(HEADER + ROW)
    assert main([str(tmp_path / "r.csv"), "--out", str(tmp_path / "out"), *options]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert "allowed:" in shown


def test_a_margin_above_one_is_fine_for_a_loss():
    frame = pd.DataFrame(
        {"arm": ["a", "b"], "seed": 1, "metric": "perplexity", "value": [30, 31.0]}
    )
    assert analyse(frame, margin=2.0)["design"]["margin"] == 2.0


@pytest.mark.parametrize(
    "plan", ["confirm: 8", "search: x", "arms: 3", "claims: 5", "- 1", "a: [1"]
)
def test_a_plan_that_is_none_is_refused(tmp_path, plan, capsys):
    (tmp_path / "r.csv").write_text(HEADER + ROW)
    (tmp_path / "p.yaml").write_text(plan + "\n")
    files = [str(tmp_path / "r.csv"), "--plan", str(tmp_path / "p.yaml")]
    assert main([*files, "--out", str(tmp_path / "out")]) == 2
    assert "p.yaml" in capsys.readouterr().err


def test_percent_is_divided_only_when_said():
    frame = pd.DataFrame({"arm": ["a", "b"], "seed": [1, 1], "metric": "test/acc",
                          "value": [50.0, 60.0]})  # fmt: skip
    assert list(read_results(frame, percent=True).frame["value"]) == [0.5, 0.6]


def test_names_stay_as_they_are_written(tmp_path):
    file = tmp_path / "results.csv"
    file.write_text("arm,seed,metric,value\nNA,1,m,0.5\n0.10,1,m,0.5\n")
    results = read_results(file)
    assert results.arms == ["NA", "0.10"]
    assert results.conditions == ["default"]


def test_other_columns_are_ignored_and_named():
    frame = pd.DataFrame({"arm": ["a"], "seed": [1], "metric": ["m"], "value": [0.5], "gpu": [0]})
    assert "gpu" in read_results(frame).notes[0]


def test_parquet_csv_and_frame_agree(tmp_path, study):
    study["results"].to_csv(tmp_path / "r.csv", index=False)
    study["results"].to_parquet(tmp_path / "r.parquet")
    frames = [read_results(s).frame for s in
              (study["results"], tmp_path / "r.csv", tmp_path / "r.parquet")]  # fmt: skip
    for other in frames[1:]:
        pd.testing.assert_frame_equal(frames[0], other, check_dtype=False)


def test_rows_of_a_broken_run_are_set_aside():
    frame = pd.DataFrame({"arm": "a", "seed": [1, 2], "metric": "m", "value": [0.5, np.nan],
                          "status": ["finished", "diverged"]})  # fmt: skip
    results = read_results(frame)
    assert list(results.frame["seed"]) == [1]
    assert results.failures == {("a", "default", 2): "diverged"}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_million_rows_are_read(tmp_path):
    n = 1_000_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "arm": np.repeat(["a", "b"], n // 2), "seed": np.tile(np.arange(10), n // 10),
        "epoch": np.tile(np.repeat(np.arange(n // 20), 10), 2), "metric": "score",
        "value": rng.random(n)})  # fmt: skip
    assert len(read_results(frame).frame) == n


@pytest.mark.parametrize("runs", ["arm,status\na,finished\n", "phase,arm,status\nsearch,a,done\n"])
def test_bad_runs_are_refused(tmp_path, study, runs):
    (tmp_path / "runs.csv").write_text(runs)
    with pytest.raises(TableError, match=r"runs\.csv"):
        write_report(study["results"], runs=tmp_path / "runs.csv", out=tmp_path / "out")
