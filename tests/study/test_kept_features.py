"""From a study that keeps features and encoders to its report, and to the encoder in hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import TRAINING, without_ray

from contrastive import load_encoder
from contrastive.data import load_dataset
from study.report import main as report
from study.run import main

STUDY = """\
name: small
trial: {dataset: digits, train_limit: 64, epochs: 1, batch_size: 32, blur_prob: 0.0}
arms:
  contrastive: {loss: contrastive}
  debiased_pos: {loss: debiased_pos}
confirm: {seeds: 3, keep: [features, encoder]}
figures: {embedding: [debiased_pos]}
claims:
  - {id: K, better: debiased_pos, than: contrastive, metric: test/knn_top1}
"""
KEEPS = """
import numpy as np

without_keeping = train


def train(run, *, rate: float = 0.5, width: int = 4, epochs: int = 3) -> None:
    without_keeping(run, rate=rate, width=width, epochs=epochs)
    if run.read_test:
        labels = np.arange(40) % 2
        h = np.random.default_rng(run.seed).normal(size=(40, 3)) + labels[:, None] * width / 4
        np.savez(run.folder / "features.npz", train=h[:20], train_labels=labels[:20],
                 test=h[20:], test_labels=labels[20:])
        run.keep(run.folder / "features.npz")
"""
OWN = """\
name: own
workload: my_training:train
metrics:
  val/error:  {better: lower, unit: fraction}
  test/error: {better: lower, unit: fraction}
arms: {narrow: {width: 4}, wide: {width: 12}}
confirm: {seeds: 3}
figures: [embedding]
claims:
  - {id: W, better: wide, than: narrow, metric: test/error}
"""


@pytest.fixture
def at(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    without_ray(monkeypatch)
    return tmp_path


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, about a machine without a GPU
def test_a_study_keeps_reports_and_verifies_and_its_encoder_is_the_studys(at, capsys):
    (at / "small.yaml").write_text(STUDY)
    assert main(["small.yaml"]) == 0
    kept = at / "studies" / "small" / "kept" / "confirm"
    files = {file.relative_to(kept).as_posix() for file in kept.rglob("*") if file.is_file()}
    assert files == {
        f"{arm}/default/{seed:04d}/{name}"
        for arm in ("contrastive", "debiased_pos")
        for seed in (1, 2, 3)
        for name in ("features.npz", "encoder.safetensors")
    }
    found = json.loads((at / "studies" / "small" / "report" / "report.json").read_text())
    (claim,) = found["robustness"]["claims"]
    assert claim["n_units"] == 3
    assert claim["choices"] == 1 + 6 + 1  # 6 images of a class; two probes of three; one epoch
    (arm,) = found["embedding"]["arms"]
    assert (arm["arm"], len(arm["points"]), found["embedding"]["seed"]) == ("debiased_pos", 300, 1)
    assert arm["uniformity"] < 0 < arm["alignment"]
    figures = at / "studies" / "small" / "report" / "figures"
    assert {"embedding.svg", "embedding.pdf"} <= {file.name for file in figures.iterdir()}
    assert report(["small", "--verify"]) == 0

    run = kept / "debiased_pos" / "default" / "0002"
    with torch.no_grad():
        h = load_encoder(run)(load_dataset("digits", train_limit=64).test.images)
    stored = np.load(run / "features.npz")
    assert np.array_equal((h / float(stored["scale"])).half().numpy(), stored["test"])


def test_features_that_a_function_keeps_itself_count_too(at):
    (at / "my_training.py").write_text(TRAINING + KEEPS)
    (at / "own.yaml").write_text(OWN)
    assert main(["own.yaml"]) == 0
    found = json.loads((at / "studies" / "own" / "report" / "report.json").read_text())
    (claim,) = found["robustness"]["claims"]
    assert claim["n_units"] == 3
    probes = [row for row in claim["rows"] if row["kind"] == "probe"]
    assert all(row["mean_difference"] > 0 for row in probes)  # classes three times as far apart
    assert [arm["knn_top1"] for arm in found["embedding"]["arms"]] == [None, None]
    assert all(len(arm["points"]) == 20 for arm in found["embedding"]["arms"])
