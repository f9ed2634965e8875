"""Kept features that are there, missing, damaged or something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kept_files import keep, made_up

from analysis.representations import kept as module
from analysis.representations.kept import Kept, read_features

GOOD = made_up(1, spread=0.3)


def test_features_are_found_by_arm_condition_seed_and_replicate(tmp_path: Path):
    keep(tmp_path, "a/clean/0007", GOOD)
    keep(tmp_path, "012/b/clean/0008", GOOD)
    kept = Kept(tmp_path, {8: 12})
    assert kept.any
    assert kept.of("a", "clean", 7).images == (60, 30)
    assert kept.of("b", "clean", 8).classes == ("0", "1", "2")
    assert kept.of("b", "clean", 7) is None
    assert kept.unused == {("b", "clean", 7): "not there"}


def test_a_study_without_any_is_known(tmp_path: Path):
    assert not Kept(tmp_path, {}).any
    assert not Kept(tmp_path / "none", {}).any


def test_only_ratios_stay_and_extreme_numbers_do_no_harm(tmp_path: Path):
    huge = GOOD | {n: GOOD[n].astype(np.float64) * 1e300 for n in ("train", "test")}
    found = [
        read_features(keep(tmp_path, str(i), content)) for i, content in enumerate((GOOD, huge))
    ]
    for name in ("train", "test"):
        np.testing.assert_allclose(getattr(found[1], name), getattr(found[0], name), rtol=1e-6)
    assert max(np.abs(found[0].train).max(), np.abs(found[0].test).max()) == 1


def test_images_without_a_label_are_left_out(tmp_path: Path):
    labels = GOOD["train_labels"].copy()
    labels[::2] = -1
    found = read_features(keep(tmp_path, "x", GOOD | {"train_labels": labels}))
    assert found.train.shape == (30, 5)
    assert (found.train_labels >= 0).all()


WRONG = {
    "no labels": ({"test_labels": None}, "it has no test_labels"),
    "no arrays at all": (dict.fromkeys(GOOD), "no train and no train_labels and no test and"),
    "all labels missing": ({"test_labels": np.full(30, -1)}, "no image of test has a label"),
    "too few labels": ({"test_labels": np.zeros(29, int)}, r"its labels are \(29,\)"),
    "labels that are no whole numbers": ({"test_labels": np.zeros(30)}, "test_labels are float64"),
    "an absurd label": ({"test_labels": np.full(30, 10**9)}, "has a label 1000000000, 9999 is"),
    "not finite": ({"train": np.full((60, 5), np.nan)}, "train has numbers that are not finite"),
    "another width": ({"test": np.ones((30, 4))}, "train has 5 numbers an image, test 4"),
    "images in place of features": ({"test": np.ones((30, 3, 8, 8))}, r"test is float64 \(30, 3"),
    "whole numbers": ({"test": np.ones((30, 5), int)}, r"test is int64"),
    "objects": ({"test": np.array([{}] * 30)}, "allow_pickle=False"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_with_something_else_is_said_and_not_used(tmp_path: Path, case: str):
    changes, why = WRONG[case]
    content = {name: v for name, v in (GOOD | changes).items() if v is not None}
    keep(tmp_path, "a/clean/0001", content)
    kept = Kept(tmp_path, {})
    assert kept.of("a", "clean", 1) is None
    with pytest.raises(ValueError, match=why):
        read_features(tmp_path / "confirm" / "a" / "clean" / "0001" / "features.npz")
    assert kept.unused["a", "clean", 1].startswith("damaged (")


@pytest.mark.parametrize("damage", ["cut", "empty", "zeroed", "flipped", "a folder", "too large"])
def test_a_damaged_file_is_said_and_not_used(tmp_path: Path, monkeypatch, damage: str):
    file = keep(tmp_path, "a/clean/0001", GOOD)
    whole = file.read_bytes()
    if damage == "a folder":
        file.unlink()
        file.mkdir()
    elif damage == "too large":
        monkeypatch.setattr(module, "LARGEST", 1000)
    else:
        middle = len(whole) // 3
        file.write_bytes(
            {
                "cut": whole[:middle],
                "empty": b"",
                "zeroed": bytes(len(whole)),
                "flipped": whole[:100] + bytes([whole[100] ^ 255]) + whole[101:],
            }[damage]
        )
    kept = Kept(tmp_path, {})
    assert kept.of("a", "clean", 1) is None
    assert kept.unused["a", "clean", 1].startswith("damaged (")


def test_names_of_a_table_lead_nowhere_else(tmp_path: Path):
    keep(tmp_path / "elsewhere", "a/clean/0001", GOOD)
    kept = Kept(tmp_path / "kept", {})
    assert kept.of("../../elsewhere/confirm/a", "clean", 1) is None
    assert kept.of("a", "clean", f"{tmp_path}/elsewhere/confirm/a/clean/0001") is None
