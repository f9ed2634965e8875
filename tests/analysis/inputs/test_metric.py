"""The direction and unit of a metric: declared, given as an option, or read from its name."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from known_truth import noisy, table_of

from analysis.errors import TableError
from analysis.inputs.metric import Metrics
from analysis.inputs.plan import read_plan
from analysis.report import analyse, directions, main, write_report

HIGHER = """acc val/accuracy test/sentiment_accuracy loss/accuracy test/top1 top-5 top_1 linear_top1
    untrained_knn_top1 F1Score f1_macro test/AUROC auc precision recall@10 BLEU-4 rougeL mIoU iou
    dice r2 episode_return reward PSNR ssim accuracy_at_epoch_5 mAP""".split()  # noqa: SIM905
LOWER = """test/rmse mae MSE wer test/nll fid valLoss accuracy_loss top1_error error_rate perplexity
    time_to_accuracy seconds_per_epoch epochs_to_90 test/ece brier latency views flops uniformity
    test/alignment runtime BPB""".split()  # noqa: SIM905
UNKNOWN = "score test/foo stopping m top tops sentiment timely lossy".split()  # noqa: SIM905


@pytest.mark.parametrize(
    ("name", "better"),
    [(n, "higher") for n in HIGHER] + [(n, "lower") for n in LOWER] + [(n, None) for n in UNKNOWN],
)
def test_whole_words_of_a_name_say_its_direction(name, better):
    assert Metrics().direction(name) == better


def test_a_window_has_the_direction_and_unit_of_its_metric():
    metrics = Metrics({"val/gain": {"better": "lower", "unit": "dB"}})
    assert metrics.direction("auc(val/gain, epochs 1-4)") == "lower"
    assert metrics.unit("auc(val/gain, epochs 1-4)") == "dB"
    assert metrics.direction("auc(val/knn_top1, epochs 1-4)") == "higher"


def test_the_nearest_word_on_a_direction_decides():
    """An option for the metric, then the plan, then the option for all, then the name."""
    plan = {"test/acc": {"better": "lower"}}
    assert Metrics(plan, {"test/acc": "higher"}).of("test/acc").source == "option"
    assert Metrics(plan, "higher").direction("test/acc") == "lower"
    assert Metrics(plan, "lower").direction("val/acc") == "lower"
    assert Metrics(plan).direction("val/acc") == "higher"


def test_a_declared_unit_overrides_the_guessed_one():
    assert Metrics().unit("test/acc") == "fraction"
    assert Metrics({"test/acc": {"better": "higher"}}).unit("test/acc") is None
    assert Metrics({"e": {"better": "lower", "unit": "fraction"}}).unit("e") == "fraction"


def scores(metric: str, *, scale: float = 1.0) -> pd.DataFrame:
    arms = {"a": noisy(0.60, seed=1), "b": noisy(0.65, seed=2), "c": noisy(0.6, seed=3)}
    return table_of({arm: [scale * v for v in x] for arm, x in arms.items()}, metric=metric)


def declared(metric: str, better: str) -> dict:
    return {
        "arms": {"a": {}, "b": {}, "c": {}},
        "metrics": {metric: {"better": better}},
        "confirm": {"metrics": [metric]},
        "claims": [{"id": "C", "better": "b", "than": "a", "metric": metric}],
    }


@pytest.mark.parametrize("through", ["plan", "option"])
def test_negated_values_and_a_flipped_direction_give_the_same_verdicts(through):
    def report(better: str, scale: float) -> dict:
        given = {"plan": declared("m", better)} if through == "plan" else {"better": {"m": better}}
        return analyse(scores("m", scale=scale), **given)

    up, down = report("higher", 1.0), report("lower", -1.0)
    assert {c["verdict"] for c in up["comparisons"]} >= {"better", "worse"}
    for one, other in zip(up["comparisons"], down["comparisons"], strict=True):
        assert one["verdict"] == other["verdict"]
        assert one["p_value"] == pytest.approx(other["p_value"])
        assert one["mean_difference"] == pytest.approx(-other["mean_difference"])
        assert (one["ci_low"], one["ci_high"]) == pytest.approx(
            (-other["ci_high"], -other["ci_low"])
        )
    assert [c["verdict"] for c in up["claims"]] == [c["verdict"] for c in down["claims"]]
    assert up["omnibus"][0]["mean_ranks"] == down["omnibus"][0]["mean_ranks"]


def test_a_flipped_direction_alone_flips_the_verdict():
    found = [
        analyse(scores("test/rmse"), better=better)["comparisons"][0]["verdict"]
        for better in (None, "higher")
    ]
    assert found == ["worse", "better"]


@pytest.mark.slow
def test_an_unknown_direction_is_refused_and_the_option_named(tmp_path, capsys):
    file = tmp_path / "t.csv"
    scores("test/foo").to_csv(file, index=False)
    out = ["--out", str(tmp_path / "out")]
    assert main([str(file), *out]) == 2
    shown = capsys.readouterr().err
    assert "it is not known whether higher or lower is better for test/foo" in shown
    assert "--better test/foo=higher" in shown
    assert main([str(file), *out, "--better", "test/foo=lower"]) == 0
    assert "guessed" not in capsys.readouterr().out
    assert main([str(file), *out, "--better", "lower"]) == 0


@pytest.mark.slow
def test_a_guess_is_printed_with_the_verdicts_and_stands_in_every_report(tmp_path, capsys):
    file, out = tmp_path / "t.csv", tmp_path / "out"
    scores("test/rmse").to_csv(file, index=False)
    assert main([str(file), "--out", str(out)]) == 0
    guess = "direction guessed from the name: test/rmse: lower is better"
    assert guess in capsys.readouterr().out
    assert guess in (out / "report.html").read_text().replace("<wbr>", "")
    assert guess in (out / "report.md").read_text()
    assert guess in (out / "report.tex").read_text()
    (metric,) = json.loads((out / "report.json").read_text())["metrics"]
    assert metric == {"metric": "test/rmse", "better": "lower", "unit": None, "source": "name"}


@pytest.mark.parametrize(
    ("better", "match"),
    [
        ("bigger", "better is 'bigger'"),
        ({"test/rmse": "less"}, r"better is 'less' for test/rmse[\s\S]*METRIC=lower"),
        ({"test/rmes": "lower"}, r"not a metric of the table[\s\S]*--better test/rmse=lower"),
    ],
)
def test_a_direction_that_cannot_be_meant_is_refused(better, match):
    with pytest.raises(TableError, match=match):
        analyse(scores("test/rmse"), better=better)


def test_options_on_the_command_line_are_names_and_directions():
    assert directions(["a=b=lower", "higher"]) == {"a=b": "lower", "": "higher"}


def test_a_metric_without_direction_is_left_out_where_claims_are_declared():
    frame = pd.concat([scores("m"), scores("test/foo")])
    plan = declared("m", "higher") | {"confirm": {"metrics": ["m", "test/foo"]}}
    report = analyse(frame, plan=plan)
    assert {c["metric"] for c in report["comparisons"]} == {"m"}
    assert {a["metric"] for a in report["arms"]} == {"m", "test/foo"}
    assert any("Not compared: test/foo" in w for w in report["warnings"])
    plan.pop("claims")
    with pytest.raises(TableError, match="better for test/foo"):
        analyse(frame, plan=plan)


def test_another_direction_than_the_plans_is_exploratory():
    plan = declared("m", "higher")
    assert not analyse(scores("m"), plan=plan, better={"m": "higher"})["claims"][0]["exploratory"]
    flipped = analyse(scores("m"), plan=plan, better={"m": "lower"})
    assert flipped["claims"][0]["exploratory"]
    assert any("directions of claimed metrics" in w for w in flipped["warnings"])


def test_a_fraction_that_is_better_when_lower_is_shown_in_points():
    plan = declared("val", "lower")
    plan["metrics"]["val"]["unit"] = "fraction"
    claim = analyse(scores("val"), plan=plan)["claims"][0]
    assert claim["verdict"] == "refuted"
    assert "points above a" in claim["sentence"]


@pytest.mark.slow
def test_a_unit_stands_after_numbers(tmp_path):
    plan = declared("m", "higher")
    plan["metrics"]["m"]["unit"] = "dB"
    report = write_report(scores("m", scale=40), plan=plan, out=tmp_path)
    assert " dB above a" in report["claims"][0]["sentence"]
    text = (tmp_path / "report.md").read_text()
    mean = next(a for a in report["arms"] if a["arm"] == "b")["mean"]
    assert f"| {mean:.3f} dB |" in text
    assert "difference, dB" in (tmp_path / "figures" / "forest.svg").read_text()


@pytest.mark.parametrize(
    ("metrics", "match"),
    [
        ({"m": {"better": "highr"}}, r"metrics\.m\.better: better is 'highr'.*try: better: higher"),
        ({"m": {"bettr": "lower"}}, r"metrics\.m\.bettr: unknown key bettr.*better, unit.*better"),
        ({"m": {"unit": "dB"}}, "metric m has no better"),
        ({"m": {"better": "lower", "unit": 3}}, "unit is 3"),
        ({"m": "lower"}, "metric m is 'lower'.*a mapping"),
        (["m"], "metrics is .'m'.*a mapping of names"),
        ({}, r"claims\.0\.metric: it is not known whether higher or lower is better for m"),
    ],
)
def test_faulty_metrics_of_a_plan_are_refused(metrics, match):
    with pytest.raises(TableError, match=match):
        read_plan(declared("m", "higher") | {"metrics": metrics})


def test_a_searched_metric_needs_a_direction():
    plan = declared("m", "higher") | {"search": {"metric": "val/foo"}}
    with pytest.raises(TableError, match=r"search\.metric: .* better for val/foo"):
        read_plan(plan)
