"""Each claim under other evaluations: the differences, what holds, and what cannot be judged."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from kept_files import features, keep, knn_by_loops, made_up

from analysis import analyse
from analysis.inputs import parse_metric, read_plan
from analysis.representations.kept import read_features
from analysis.representations.robustness import Choice, evaluate, measure_of

SPREADS = {("plain", "clean"): 1.0, ("better", "clean"): 0.5,
           ("plain", "blurred"): 2.0, ("better", "blurred"): 0.6}  # fmt: skip


@pytest.fixture(scope="module")
def folder(study, tmp_path_factory) -> Path:
    """A folder `kept`: arm `better` has classes that overlap less, and suffers less from blur."""
    found = tmp_path_factory.mktemp("study") / "kept"
    for (arm, condition), spread in SPREADS.items():
        for seed in study["plan"]["confirm"]["seeds"]:
            keep(found, f"{arm}/{condition}/{seed:04d}", made_up(seed, spread=spread))
    return found


def robust(study, kept: Path, **changes) -> dict:
    plan = study["plan"] | changes
    return analyse(study["results"], plan=plan, kept=kept)["robustness"]


def test_every_choice_is_the_plain_loops_accuracy():
    data = features(3, spread=0.9)
    found = evaluate(data)
    labels = [choice.label for choice in found]
    assert "kNN, k = 1" in labels  # once: its temperature does not matter
    assert "kNN, k = 10, t = 0.07" in labels
    assert not any("k = 100" in label for label in labels)  # 20 training images of a class
    for k, t, label in ((1, 0.5, "kNN, k = 1"), (20, 0.1, "kNN, k = 20, t = 0.1")):
        first = np.array(knn_by_loops(data, k, t))[:, 0]
        hits = first == data.test_labels
        own = found[Choice("knn", label)]
        assert own["top1"] == Fraction(int(hits.sum()), 30)
        assert own["top5"] == 1  # of three classes
        worst = min(hits[data.test_labels == c].mean() for c in range(3))
        assert float(own["worst_class"]) == pytest.approx(worst)
        assert own["worst_class"] <= own["top1"]


def test_differences_are_of_paired_seeds_and_have_the_claims_sign(study, folder):
    found = {c["claim"]: c for c in robust(study, folder)["claims"]}
    rows = {row["label"]: row for row in found["F1"]["rows"]}
    seeds = study["plan"]["confirm"]["seeds"]

    def accuracy(arm: str, condition: str, seed: int) -> float:
        file = folder / "confirm" / arm / condition / f"{seed:04d}" / "features.npz"
        data = read_features(file)
        first = np.array(knn_by_loops(data, 20, 0.07))[:, 0]
        return float((first == data.test_labels).mean())

    apart = [accuracy("better", "clean", s) - accuracy("plain", "clean", s) for s in seeds]
    row = rows["kNN, k = 20, t = 0.07"]
    assert row["mean_difference"] == pytest.approx(np.mean(apart))
    half = 2.3646 * np.std(apart, ddof=1) / 8**0.5  # t(7), 97.5 %
    assert row["ci_low"] == pytest.approx(np.mean(apart) - half, abs=1e-4)
    assert (row["holds"], row["surely"]) == (True, row["ci_low"] > 0)
    hurt = [
        accuracy("better", "blurred", s) - accuracy("better", "clean", s)
        - accuracy("plain", "blurred", s) + accuracy("plain", "clean", s) for s in seeds
    ]  # fmt: skip
    rows = {row["label"]: row for row in found["F3"]["rows"]}
    assert rows["kNN, k = 20, t = 0.07"]["mean_difference"] == pytest.approx(np.mean(hurt))


def test_the_summary_counts_what_holds_and_names_the_extremes(study, folder):
    found = robust(study, folder)
    for claim in found["claims"]:
        rows = claim["rows"]
        assert claim["choices"] == len(rows)
        assert claim["holds"] == sum(row["mean_difference"] > 0 for row in rows)
        assert claim["surely"] == sum(row["ci_low"] is not None and row["ci_low"] > 0
                                      for row in rows)  # fmt: skip
        if rows:
            differences = [row["mean_difference"] for row in rows]
            assert claim["least"]["mean_difference"] == min(differences)
            assert claim["largest"]["mean_difference"] == max(differences)
    first = found["claims"][0]
    assert first["holds"] == first["choices"] == 1 + 2 * 3 + 6 + 5  # kNN, probes, epochs
    assert found["unused"] == []


def test_swapped_arms_turn_every_difference_round(study, folder):
    claim = {"id": "F1", "better": "plain", "than": "better", "metric": "test/knn_top1"}
    (swapped,) = robust(study, folder, claims=[claim])["claims"]
    straight = robust(study, folder)["claims"][0]
    for row, other in zip(swapped["rows"], straight["rows"], strict=True):
        assert row["mean_difference"] == pytest.approx(-other["mean_difference"])
    assert swapped["holds"] == 0


def test_the_last_epochs_are_those_of_the_table(study, folder):
    rows = [r for r in robust(study, folder)["claims"][0]["rows"] if r["kind"] == "epoch"]
    assert [r["label"] for r in rows] == [f"val/knn_top1 at epoch {e}" for e in range(2, 7)]
    table = study["results"].query("metric == 'val/knn_top1' and condition == 'clean'")
    means = table[table["epoch"] == 4].groupby("arm")["value"].mean()
    at_4 = next(r for r in rows if r["label"].endswith(" 4"))
    assert at_4["mean_difference"] == pytest.approx(means["better"] - means["plain"])


def test_an_early_window_is_not_judged_by_features_of_the_last_epoch(study, folder):
    early = robust(study, folder)["claims"][1]
    assert (early["claim"], early["choices"]) == ("F2", 0)
    assert early["reason"].startswith("it is about early epochs")


def test_an_equivalence_holds_within_the_margin(study, folder):
    claim = {"id": "E", "equivalent": "better", "to": "plain", "metric": "test/knn_top1"}
    for margin in (0.01, 0.9):
        (found,) = robust(study, folder, claims=[claim], margin=margin)["claims"]
        inside = [abs(row["mean_difference"]) < margin for row in found["rows"]]
        assert [row["holds"] for row in found["rows"]] == inside
    assert found["surely"] == found["choices"]  # nothing is further apart than 0.9


def test_replicates_are_the_units(study, tmp_path):
    seeds = study["plan"]["confirm"]["seeds"]
    replicates = {seed: 1 + i // 2 for i, seed in enumerate(seeds)}
    table = study["results"].assign(replicate=study["results"]["seed"].map(replicates))
    for (arm, condition), spread in SPREADS.items():
        for seed in seeds:
            where = f"{replicates[seed]:03d}/{arm}/{condition}/{seed:04d}"
            keep(tmp_path, where, made_up(seed, spread=spread))
    found = analyse(table, plan=study["plan"], kept=tmp_path)["robustness"]
    assert found["unused"] == []
    assert found["claims"][0]["n_units"] == 4


def test_runs_without_usable_features_leave_with_their_pair_and_are_named(study, folder, tmp_path):
    kept = tmp_path / "kept"
    for file in (folder / "confirm").rglob("*.npz"):
        keep(kept, file.parent.relative_to(folder / "confirm").as_posix(), dict(np.load(file)))
    (kept / "confirm" / "plain" / "clean" / "0100" / "features.npz").unlink()
    (kept / "confirm" / "better" / "clean" / "0101" / "features.npz").write_bytes(b"PK nothing")
    report = analyse(study["results"], plan=study["plan"], kept=kept)
    found = report["robustness"]
    assert found["claims"][0]["n_units"] == 6
    assert [(u["arm"], u["seed"]) for u in found["unused"]] == [("plain", 100), ("better", 101)]
    assert found["unused"][1]["why"].startswith("damaged (")
    text = report.to_html(tmp_path / "r.html").read_text()
    assert "Left out, with its pair: plain, clean, seed 100, whose features are not there" in text


def test_without_any_features_there_is_no_section(study, tmp_path):
    assert robust(study, tmp_path) is None
    keep(tmp_path, "another/clean/0001", made_up(1, spread=0.5))
    found = robust(study, tmp_path)
    assert {c["reason"] for c in found["claims"] if c["claim"] != "F2"} == {
        "no unit has features of all its runs"
    }


@pytest.mark.parametrize(
    ("metric", "measure"),
    [
        ("test/knn_top1", "top1"),
        ("test/linear_top5", "top5"),
        ("test/knn_worst_class", "worst_class"),
        ("test/linear_top1/cat", None),
        ("test/uniformity", None),
        ("test/untrained_knn_top1", None),
    ],
)
def test_only_accuracies_over_the_split_are_judged(study, metric: str, measure: str | None):
    plan = read_plan(study["plan"] | {"metrics": {"test/uniformity": {"better": "lower"}}})
    assert measure_of(parse_metric(metric), plan) == measure


def test_errors_count_with_the_opposite_sign(study, folder):
    table = study["results"].copy()
    curves = table["metric"] == "val/knn_top1"
    table.loc[curves, "value"] = 1 - table.loc[curves, "value"]
    table = table.drop(columns=["correct", "total"])
    table["metric"] = table["metric"].replace("val/knn_top1", "val/error")
    metrics = {"val/error": {"better": "lower", "unit": "fraction"},
               "test/knn_top1": {"better": "higher", "unit": "fraction"}}  # fmt: skip
    plan = {k: v for k, v in study["plan"].items() if k != "search"}
    plan |= {"claims": plan["claims"][:1], "metrics": metrics}
    rows = analyse(table, plan=plan, kept=folder)["robustness"]["claims"][0]["rows"]
    flipped = [r["mean_difference"] for r in rows if r["kind"] == "epoch"]
    straight = robust(study, folder)["claims"][0]["rows"]
    known = [r["mean_difference"] for r in straight if r["kind"] == "epoch"]
    np.testing.assert_allclose(flipped, known)
