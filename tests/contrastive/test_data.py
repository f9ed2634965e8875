"""Does a dataset's name give the right, the same and cheaply loaded images?"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from contrastive.data import (
    DATASETS,
    DataError,
    Dataset,
    Split,
    implied_tau_plus,
    load_dataset,
    load_prepared,
    prepare,
)

DIGITS = ("digits", "scattered_digits")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def pixels(split: Split) -> np.ndarray:
    return split.images.flatten(1).numpy()


def raw_pixel_accuracy(data: Dataset, held_out: Split, k: int = 5) -> float:
    model = KNeighborsClassifier(k).fit(pixels(data.train), data.train.labels.numpy())
    return model.score(pixels(held_out), held_out.labels.numpy())


def same(a: Split, b: Split) -> bool:
    return torch.equal(a.images, b.images) and torch.equal(a.labels, b.labels)


@pytest.mark.parametrize(("name", "side"), [("digits", 8), ("scattered_digits", 16)])
def test_digits_have_the_documented_shapes_and_cover_every_class(name, side, cache):
    data = load_dataset(name, cache_dir=cache)
    for split, count in ((data.train, 1197), (data.val, 300), (data.test, 300)):
        assert split.images.shape == (count, 1, side, side)
        assert split.images.dtype == torch.uint8
        assert split.labels.dtype == torch.int64
        assert len(split) == count
        shares = torch.bincount(split.labels, minlength=10) / count
        assert (shares - 0.1).abs().max() < 0.01
    assert data.classes == tuple("0123456789")
    assert (data.name, data.augmentation) == (name, "digits")
    assert data.train.images.max() == 255


def test_digits_are_those_of_scikit_learn(cache):
    from sklearn.datasets import load_digits

    data = load_dataset("digits", cache_dir=cache)
    ours = np.concatenate([pixels(s) for s in (data.train, data.val, data.test)])
    theirs = np.rint(load_digits().data * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scattering_takes_raw_pixels_from_97_to_60_percent(seed, cache):
    plain = load_dataset("digits", split_seed=seed, cache_dir=cache)
    scattered = load_dataset("scattered_digits", split_seed=seed, cache_dir=cache)
    for part in ("val", "test"):
        assert raw_pixel_accuracy(plain, getattr(plain, part)) > 0.96
        # a share of 300 near 0.6 has a standard error of 0.028
        assert 0.5 < raw_pixel_accuracy(scattered, getattr(scattered, part)) < 0.7


def test_scattered_digits_stay_legible(cache):
    """No pose throws a digit off its canvas: each keeps some ink, on average most of it."""
    images = load_dataset("scattered_digits", cache_dir=cache).train.images.double()
    plain = load_dataset("digits", cache_dir=cache).train.images.double()
    assert images.flatten(1).sum(1).min() > 0.3 * images.flatten(1).sum(1).median()
    ink = images.mean() / plain.mean()
    assert ink > 0.9 / 1.27**2  # 1.27: the quadratic mean of a scale drawn from 1-1.5


def test_one_seed_twice_is_identical_and_two_seeds_differ(tmp_path, cache):
    for name in DIGITS:
        first = load_dataset(name, cache_dir=cache)
        again = load_dataset(name, cache_dir=tmp_path)  # decoded and drawn afresh
        other = load_dataset(name, split_seed=1, cache_dir=cache)
        for part in ("train", "val", "test"):
            assert same(getattr(first, part), getattr(again, part))
            assert not same(getattr(first, part), getattr(other, part))


def test_limit_and_imbalance_touch_the_training_split_only(cache):
    whole = load_dataset("digits", cache_dir=cache)
    less = load_dataset("digits", train_limit=200, imbalance=0.1, cache_dir=cache)
    assert len(less.train) == 200
    counts = torch.bincount(less.train.labels)
    assert counts[9] / counts[0] == pytest.approx(0.1, abs=0.03)
    assert same(whole.val, less.val)
    assert same(whole.test, less.test)


def test_without_validation_the_training_split_is_the_larger(cache):
    held_out, whole = (load_dataset("digits", validation=v, cache_dir=cache) for v in (True, False))
    assert whole.val is None
    assert same(whole.test, held_out.test)
    together = np.concatenate([pixels(held_out.train), pixels(held_out.val)])
    assert sorted(map(bytes, pixels(whole.train))) == sorted(map(bytes, together))


def test_a_limit_beyond_the_training_split_takes_all_of_it(cache):
    assert len(load_dataset("digits", train_limit=10**6, cache_dir=cache).train) == 1197


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train_limit": 9}, r"train_limit is 9, fewer than the 10 classes\n  allowed: .* >= 10"),
        ({"train_limit": 0}, r"train_limit is 0\n  allowed"),
        ({"imbalance": 0.0}, r"imbalance is 0.0\n  allowed: a number in \(0, 1\]"),
        ({"imbalance": 1.5}, r"imbalance is 1.5"),
        ({"split_seed": -1}, r"split_seed is -1"),
        ({"imbalance": 2, "split_seed": -1}, r"(?s)split_seed.*imbalance"),
        ({"path": "somewhere"}, r"comes with scikit-learn\n  try: leave dataset_path out"),
    ],
)
def test_settings_out_of_range_are_named_with_what_is_allowed(settings, message, cache):
    with pytest.raises(DataError, match=message):
        load_dataset("digits", cache_dir=cache, **settings)


def test_an_unknown_name_gets_the_nearest_known_one():
    with pytest.raises(DataError, match=r"(?s)'cifra10'.*allowed: .*mnist.*try: cifar10"):
        load_dataset("cifra10")


def test_the_datasets_of_the_documentation_are_all_there():
    assert set(DATASETS) == {
        *DIGITS,
        "mnist",
        "cifar10",
        "cifar100",
        "stl10",
        "imagefolder",
        "parquet",
    }


def test_prepare_then_load_opens_the_same_entry_without_decoding(cache, monkeypatch):
    entry = prepare("digits", cache_dir=cache)
    assert entry.is_absolute()
    monkeypatch.setattr("contrastive.data.cache.build", lambda *a, **k: pytest.fail("built"))
    assert same(load_prepared(entry).test, load_dataset("digits", cache_dir=cache).test)


def test_opening_what_was_never_prepared_says_so(tmp_path):
    with pytest.raises(DataError, match="no intact cache entry"):
        load_prepared(tmp_path / "nothing")


def test_the_cache_follows_the_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "here"))
    assert prepare("digits").parent == tmp_path / "here"


def test_writing_to_a_split_changes_neither_the_cache_nor_other_readers(cache):
    mine, yours = (load_dataset("digits", cache_dir=cache) for _ in range(2))
    mine.train.images.zero_()
    assert yours.train.images.sum() > 0
    assert load_dataset("digits", cache_dir=cache).train.images.sum() > 0


def test_a_second_load_takes_milliseconds(cache):
    load_dataset("scattered_digits", cache_dir=cache)
    start = time.perf_counter()
    for _ in range(10):
        load_dataset("scattered_digits", cache_dir=cache)
    assert (time.perf_counter() - start) / 10 < 0.1  # measured: 0.003 s


@pytest.mark.slow
def test_loading_from_a_full_cache_imports_no_decoder(cache):
    """Workers load what the driver prepared; torchvision alone would cost each 95 MB."""
    load_dataset("digits", cache_dir=cache)
    script = (
        "import sys; from contrastive.data import load_dataset; "
        f"load_dataset('digits', cache_dir={str(cache)!r}); "
        "print(*{'torchvision', 'sklearn', 'pyarrow', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_implied_tau_plus_is_the_chance_that_two_images_share_a_class():
    assert implied_tau_plus(torch.arange(10).repeat(7)) == pytest.approx(0.1)
    assert implied_tau_plus(torch.tensor([0, 0, 0, 2, -1, -1])) == pytest.approx(9 / 16 + 1 / 16)
    assert implied_tau_plus(torch.zeros(3, dtype=torch.int64)) == 1.0
    labels = torch.randint(0, 4, (400,), generator=torch.Generator().manual_seed(0))
    pairs = labels[:, None] == labels[None, :]
    assert implied_tau_plus(labels) == pytest.approx(pairs.double().mean().item())


def test_implied_tau_plus_needs_a_label():
    with pytest.raises(DataError, match="no training image has one"):
        implied_tau_plus(torch.tensor([-1, -1]))
