"""What a run keeps: features in half precision, and an encoder that gives them again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from contrastive import load_encoder
from contrastive.config import TrainConfig, settings
from contrastive.data import load_dataset
from contrastive.encoders import EncoderFileError
from contrastive.training.evaluator import Features
from contrastive.training.kept import MOST_IMAGES, evenly, keep, save_features
from contrastive.training.loop import train

CONFIG = TrainConfig(dataset="digits", epochs=1, batch_size=32, train_limit=120, blur_prob=0.0)


@pytest.fixture(scope="module")
def trained():
    """What the last record of a short training has."""
    *_, last = train(CONFIG, 3)
    return last.trained


def run_in(folder: Path, *to_keep: str) -> SimpleNamespace:
    """The parts of a study's run that keeping needs; `kept` has what was handed over."""
    kept: list[Path] = []
    where = {"arm": "a", "condition": "clean", "replicate": 2, "seed": 3}
    return SimpleNamespace(folder=folder, to_keep=to_keep, keep=kept.append, kept=kept, **where)


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory) -> Path:
    """A folder with both files of one run."""
    found = tmp_path_factory.mktemp("run")
    keep(run_in(found, "features", "encoder"), trained, settings(CONFIG))
    return found


def test_a_loaded_encoder_gives_the_features_again_bit_for_bit(folder: Path, trained):
    model = load_encoder(folder)
    data = load_dataset("digits", train_limit=120)
    with torch.no_grad():
        h = model(data.test.images)
    assert torch.equal(h, trained.features.queries)  # in float32
    stored = np.load(folder / "features.npz")
    assert np.array_equal((h / float(stored["scale"])).half().numpy(), stored["test"])
    assert np.array_equal(stored["test_labels"], data.test.labels.numpy())
    assert [len(stored[name]) for name in ("train", "train_labels")] == [120, 120]
    assert stored["classes"].tolist() == list(data.classes)
    with torch.no_grad():
        assert torch.equal(model(data.test.images / 255), h)


def test_an_encoder_says_where_it_comes_from_and_ends_in_evaluation_mode(folder: Path):
    model = load_encoder(folder / "encoder.safetensors")
    assert model.about == {"arm": "a", "condition": "clean", "replicate": 2, "seed": 3}
    assert model.settings == json.loads(json.dumps(settings(CONFIG)))
    assert not model.training
    assert model.width == 128


def test_only_what_is_asked_for_is_kept(trained, tmp_path: Path):
    run = run_in(tmp_path, "encoder")
    keep(run, trained, settings(CONFIG))
    assert [file.name for file in run.kept] == ["encoder.safetensors"]
    keep(run_in(tmp_path / "none"), trained, settings(CONFIG))
    assert not (tmp_path / "none").exists()


def test_a_full_disk_costs_the_files_and_not_the_run(trained, tmp_path: Path):
    run = run_in(tmp_path, "features", "encoder")

    def full(file: Path) -> None:
        raise OSError(28, "No space left on device")

    run.keep = full
    keep(run, trained, settings(CONFIG))


def test_half_precision_holds_very_large_and_very_small_features(tmp_path: Path):
    for size in (1e30, 1.0, 1e-30):
        h = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)) * size
        save_features(tmp_path / "f.npz", Features(h, torch.arange(8), h, torch.arange(8)))
        stored = np.load(tmp_path / "f.npz")
        again = stored["train"].astype(np.float64) * stored["scale"]
        np.testing.assert_allclose(again, h.double().numpy(), rtol=2e-3, atol=size * 1e-6)


def test_large_splits_are_thinned_evenly_and_say_how_large_they_were(tmp_path: Path):
    count = 3 * MOST_IMAGES // 2
    labels = torch.arange(count) * 10 // count  # sorted by class
    h = torch.ones(count, 1)
    save_features(tmp_path / "f.npz", Features(h, labels, h[:5], labels[:5]))
    stored = np.load(tmp_path / "f.npz")
    assert stored["images"].tolist() == [count, 5]
    assert np.bincount(stored["train_labels"]).tolist() == [MOST_IMAGES // 10] * 10
    assert len(set(evenly(count, MOST_IMAGES).tolist())) == MOST_IMAGES


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 8, 8), r"\(3, 8, 8\); allowed: \(N, 1, H, W\)"),
        (torch.zeros(2, 3, 8, 8), r"\(2, 3, 8, 8\); allowed: \(N, 1, H, W\)"),
        (torch.zeros(0, 1, 8, 8), "N >= 1"),
        (torch.full((2, 1, 8, 8), 255.0), "reach from 255 to 255; allowed: uint8, or float in"),
        (torch.full((2, 1, 8, 8), 5), "allowed: uint8"),
    ],
)
def test_images_of_another_form_are_refused(folder: Path, images, message: str):
    with pytest.raises(ValueError, match=message):
        load_encoder(folder)(images)


def test_files_that_are_no_encoder_are_refused_with_what_to_do(folder: Path, tmp_path: Path):
    with pytest.raises(EncoderFileError, match="does not exist"):
        load_encoder(tmp_path / "nothing")
    with pytest.raises(EncoderFileError, match=r"has no encoder\.safetensors .*\n  try: confirm"):
        load_encoder(tmp_path)
    whole = (folder / "encoder.safetensors").read_bytes()
    for seed in ("0001", "0002"):
        (tmp_path / seed).mkdir()
        (tmp_path / seed / "encoder.safetensors").write_bytes(whole[:5000])
    with pytest.raises(EncoderFileError, match=r"(?s)2 encoders are below .*0001.*0002"):
        load_encoder(tmp_path)
    with pytest.raises(EncoderFileError, match="is damaged"):
        load_encoder(tmp_path / "0001")


def test_weights_of_another_encoder_are_refused(folder: Path, tmp_path: Path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(folder / "encoder.safetensors", "pt") as content:
        weights = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        metadata = content.metadata()
    weights.pop("backbone.0.weight")
    save_file(weights, tmp_path / "encoder.safetensors", metadata)
    with pytest.raises(EncoderFileError, match=r"do not fit the encoder small_cnn"):
        load_encoder(tmp_path)
    save_file(weights, tmp_path / "encoder.safetensors")
    with pytest.raises(EncoderFileError, match="no encoder that a study kept"):
        load_encoder(tmp_path)
