"""Is the cache whole, safe for processes that meet in it, and repaired when damaged?"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.data import DataError, cache, load_dataset, load_prepared, prepare
from contrastive.data.formats.base import Stream


def fill(folder: Path) -> dict[str, str]:
    np.save(folder / "numbers.npy", np.arange(5))
    return {"name": "five"}


def source_entry(entry: Path) -> Path:
    """The decoded source that a choice's entry was taken from."""
    return entry.with_name(entry.name.removesuffix("-seed0"))


def flip_last_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 0xFF
    file.unlink()  # the test split's arrays are hard links into the source's entry
    file.write_bytes(content)


def truncate(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-7])


def break_header(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[:6] = b"broken"
    file.unlink()
    file.write_bytes(content)


@pytest.mark.parametrize("harm", [truncate, break_header, Path.unlink])
@pytest.mark.parametrize("name", ["train_images.npy", "test_labels.npy", "meta.json"])
def test_a_cheaply_visible_damage_is_repaired_by_loading(harm, name, tmp_path):
    entry = prepare("digits", cache_dir=tmp_path)
    want = load_prepared(entry).train.images.clone()
    harm(entry / name)
    with pytest.raises(DataError, match="no intact cache entry"):
        load_prepared(entry)
    assert torch.equal(load_dataset("digits", cache_dir=tmp_path).train.images, want)
    assert cache.is_intact(entry, verify=True)


def test_a_flipped_bit_is_found_by_the_checksum_and_repaired_by_prepare(tmp_path):
    entry = prepare("digits", cache_dir=tmp_path)
    want = load_prepared(entry).train.images.clone()
    flip_last_byte(entry / "train_images.npy")
    assert cache.is_intact(entry)
    assert not cache.is_intact(entry, verify=True)
    assert torch.equal(load_prepared(prepare("digits", cache_dir=tmp_path)).train.images, want)


def test_a_flipped_bit_in_the_decoded_source_does_not_reach_a_new_choice(tmp_path):
    entry = prepare("digits", cache_dir=tmp_path)
    want = load_prepared(entry).train.images.clone()
    flip_last_byte(source_entry(entry) / "train_images.npy")
    truncate(entry / "train_images.npy")
    assert torch.equal(load_dataset("digits", cache_dir=tmp_path).train.images, want)


def test_meta_records_sizes_and_checksums(tmp_path):
    entry = cache.build(tmp_path / "five", fill, verify=False)
    meta = json.loads((entry / "meta.json").read_text())
    assert meta["name"] == "five"
    assert set(meta["files"]["numbers.npy"]) == {"bytes", "shape", "dtype", "sha256"}


def test_an_entry_is_built_once_however_many_ask(tmp_path):
    built = []

    def slowly(folder: Path) -> dict[str, str]:
        built.append(folder)
        time.sleep(0.2)
        return fill(folder)

    entry = tmp_path / "entry"
    askers = [
        threading.Thread(target=cache.build, args=(entry, slowly), kwargs={"verify": True})
        for _ in range(4)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(built) == 1
    assert cache.is_intact(entry, verify=True)


@pytest.mark.slow
def test_two_processes_preparing_at_once_end_with_one_intact_entry(tmp_path):
    script = (
        "from contrastive.data import prepare; "
        f"print(prepare('scattered_digits', cache_dir={str(tmp_path)!r}))"
    )
    both = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script], stdout=-1, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=60)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    (entry,) = map(Path, answers)
    assert cache.is_intact(entry, verify=True)
    assert not list(tmp_path.glob(".building-*"))


def test_a_failing_fill_leaves_nothing_and_what_a_killed_process_left_is_swept(tmp_path):
    def fails(folder: Path) -> dict[str, str]:
        fill(folder)
        raise DataError("half way")

    left_behind = tmp_path / ".building-five.abc123"
    left_behind.mkdir()
    with pytest.raises(DataError, match="half way"):
        cache.build(tmp_path / "five", fails, verify=False)
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"(?s)file.* cannot be written.*CONTRASTIVE_CACHE"):
        prepare("digits", cache_dir=tmp_path / "file")


@pytest.mark.parametrize(("announced", "message"), [(3, "holds 2 images, not 3"), (0, "no images")])
def test_a_stream_that_breaks_its_promise_is_an_error(announced, message, tmp_path):
    chunk = (np.zeros((2, 1, 4, 4), np.uint8), np.zeros(2, np.int64))
    with pytest.raises(DataError, match=message):
        cache.write_stream(tmp_path, "train", Stream(announced, iter([chunk])))
