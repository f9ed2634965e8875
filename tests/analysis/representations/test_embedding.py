"""The figure of the representations: what it measures, which runs it takes, that it repeats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kept_files import keep, made_up

from analysis import analyse
from analysis.errors import TableError
from analysis.figures.report_figures import draw
from analysis.inputs import read_plan
from analysis.representations.embedding import coordinates, silhouette


def silhouette_by_definition(h: np.ndarray, labels: np.ndarray) -> float:
    """Rousseeuw 1987, image by image; distance 1 - cosine."""
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    apart = 1 - unit @ unit.T
    values = []
    for i, own in enumerate(labels):
        others = [j for j in range(len(labels)) if labels[j] == own and j != i]
        if not others:
            values.append(0.0)
            continue
        a = np.mean([apart[i, j] for j in others])
        b = min(apart[i, labels == c].mean() for c in set(labels) - {own})
        values.append((b - a) / max(a, b))
    return float(np.mean(values))


def test_the_silhouette_is_that_of_its_definition():
    content = made_up(2, spread=0.4, test=13)
    h, labels = content["test"].astype(float), content["test_labels"]
    labels = np.where(np.arange(13) == 5, 7, labels)  # a class of one image
    assert silhouette(h, labels) == pytest.approx(silhouette_by_definition(h, labels))
    assert silhouette(h, np.zeros(13, int)) is None
    assert silhouette(h, np.arange(13)) is None


def test_coordinates_repeat_and_tell_classes_apart():
    content = made_up(2, spread=0.02, test=30)
    h, labels = content["test"].astype(np.float32), content["test_labels"]
    first = coordinates(h)
    assert np.array_equal(first, coordinates(h))
    assert silhouette(first - first.mean(0), labels) > 0.8  # seen from the middle


@pytest.fixture
def asked(study) -> dict:
    return study["plan"] | {"figures": ["embedding"]}


@pytest.fixture
def folder(study, tmp_path) -> Path:
    for arm, spread in (("plain", 0.8), ("better", 0.3)):
        for seed in study["plan"]["confirm"]["seeds"][:3]:
            keep(tmp_path, f"{arm}/clean/{seed:04d}", made_up(seed, spread=spread))
    return tmp_path


def drawn(report):
    return next((d for d in draw(report) if d.name == "embedding"), None)


def test_the_first_unit_with_features_of_every_arm_is_drawn(study, asked, folder):
    (folder / "confirm" / "plain" / "clean" / "0100" / "features.npz").unlink()
    report = analyse(study["results"], plan=asked, kept=folder)
    found = report["embedding"]
    assert (found["seed"], found["condition"]) == (101, "clean")
    assert [arm["arm"] for arm in found["arms"]] == ["plain", "better"]
    plain, better = found["arms"]
    assert len(plain["points"]) == len(plain["labels"]) == 30
    assert better["silhouette"] > plain["silhouette"]
    table = study["results"].query("arm == 'plain' and condition == 'clean' and seed == 101")
    (known,) = table.query("metric == 'test/knn_top1'")["value"]
    assert plain["knn_top1"] == known
    assert plain["alignment"] is None  # the table has none
    drawing = drawn(report)
    texts = [panel.get_xlabel() for panel in drawing.figure.axes]
    assert texts[0].startswith("silhouette ")
    assert f"kNN {100 * known:.1f} %" in texts[0]
    assert "seed 101" in drawing.caption
    assert json.dumps(found) == json.dumps(
        analyse(study["results"], plan=asked, kept=folder)["embedding"]
    )


def test_arms_are_chosen_in_the_order_that_was_asked_for(study, folder):
    plan = study["plan"] | {"figures": {"embedding": ["better"]}}
    found = analyse(study["results"], plan=plan, kept=folder)["embedding"]
    assert [(arm["arm"], bool(arm["points"])) for arm in found["arms"]] == [("better", True)]
    assert found["seed"] == 100


def test_an_arm_without_features_is_named_and_the_others_are_drawn(study, asked, folder, tmp_path):
    for file in (folder / "confirm" / "plain").rglob("*.npz"):
        file.write_bytes(b"torn")
    report = analyse(study["results"], plan=asked, kept=folder)
    plain, better = report["embedding"]["arms"]
    assert plain["points"] == []
    assert plain["reason"].startswith("features damaged (")
    assert better["points"]
    assert drawn(report) is not None
    assert "plain is not drawn: features damaged" in report.to_html(tmp_path / "r").read_text()


@pytest.mark.parametrize("kept", ["", "none"])
def test_without_features_the_report_says_so_and_goes_on(study, asked, tmp_path, kept: str):
    report = analyse(study["results"], plan=asked, kept=tmp_path / kept)
    assert drawn(report) is None
    told = "cannot be drawn: no run kept features; `confirm: {keep: [features]}` keeps"
    assert told in report.to_html(tmp_path / "r.html").read_text().replace("\u00a0", " ")
    assert analyse(study["results"], plan=study["plan"], kept=tmp_path)["embedding"] is None


def test_an_encoder_that_has_collapsed_and_too_few_images_are_said(study, asked, tmp_path):
    flat = made_up(1, spread=0.5) | {"test": np.ones((30, 5)), "train": np.ones((60, 5))}
    keep(tmp_path, "plain/clean/0100", flat)
    keep(tmp_path, "better/clean/0100", made_up(1, spread=0.5, test=4))
    arms = analyse(study["results"], plan=asked, kept=tmp_path)["embedding"]["arms"]
    assert [arm["reason"] for arm in arms] == [
        "all images have the same representation", "4 test images, at least 8 are needed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("figures", "why"),
    [
        ("embeding", "figures is 'embeding'"),
        (["embeding"], r"figures is \['embeding'\]"),
        ({"embedding": "plain"}, "figures is {'embedding': 'plain'}"),
        ({"embedding": ["plane"]}, "figures.embedding has plane, which is no arm"),
        ([["embedding"]], "figures is"),
        (3, "figures is 3"),
    ],
)
def test_a_plan_with_other_figures_is_refused(study, figures, why: str):
    with pytest.raises(TableError, match=why):
        read_plan(study["plan"] | {"figures": figures})
