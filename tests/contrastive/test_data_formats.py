"""Does every layout on disk come out pixel for pixel, and is damage in it named?

Each test writes small files in the real format, then reads them through `load_dataset`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet as pq

from contrastive.data import DataError, Dataset, load_dataset
from contrastive.data.formats import cifar, stl10

Array = np.ndarray


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("a test reached for the network")

    monkeypatch.setattr("contrastive.data.download._torchvision", refuse)


@pytest.fixture
def load(tmp_path):
    """Load a dataset from `tmp_path`/source with a cache of the test's own."""

    def load_it(name: str, **settings) -> Dataset:
        return load_dataset(
            name, path=tmp_path / "source", cache_dir=tmp_path / "cache", **settings
        )

    return load_it


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def noise(n: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def cycle(n: int, classes: int) -> Array:
    return np.arange(n, dtype=np.int64) % classes


def pairs(images: Array, labels: Array) -> list[tuple[int, bytes]]:
    """A split as a sorted list, since carving a validation split changes the order."""
    return sorted(
        (int(label), image.tobytes()) for image, label in zip(images, labels, strict=True)
    )


def assert_holds(data: Dataset, train: tuple[Array, Array], test: tuple[Array, Array]) -> None:
    """Train and validation together are `train`, test is `test` in its order, pixel by pixel."""
    images = np.concatenate([data.train.images.numpy(), data.val.images.numpy()])
    labels = np.concatenate([data.train.labels.numpy(), data.val.labels.numpy()])
    assert images.shape[1:] == train[0].shape[1:]
    assert pairs(images, labels) == pairs(*train)
    assert np.array_equal(data.test.images.numpy(), test[0])
    assert np.array_equal(data.test.labels.numpy(), test[1])


def truncate(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def garble(file: Path) -> None:
    file.write_bytes(b"this is not what the name says" * 9)


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES = [truncate, garble, empty]


# CIFAR's pickled batches


def write_cifar(folder: Path, names: list[str], images: Array, labels: Array, key: str) -> None:
    folder.mkdir(parents=True)
    parts = zip(
        names, np.array_split(images, len(names)), np.array_split(labels, len(names)), strict=True
    )
    for name, pixels, numbers in parts:
        batch = {"data": pixels.reshape(-1, 3072), key: numbers.tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


@pytest.fixture
def cifar10(source):
    images, labels = noise(120, 3, 32, 32), cycle(120, 10)
    write_cifar(source / "cifar-10-batches-py", list(cifar.CIFAR10_FILES), images, labels, "labels")
    return images, labels


def test_cifar10_batches_round_trip(source, cifar10, load):
    images, labels = cifar10
    names = {"label_names": [f"n{c}" for c in range(10)]}
    (source / "cifar-10-batches-py" / "batches.meta").write_bytes(pickle.dumps(names))
    data = load("cifar10")
    assert_holds(data, (images[:100], labels[:100]), (images[100:], labels[100:]))
    assert len(data.val) == 10
    assert data.classes == tuple(names["label_names"])
    assert data.augmentation == "natural"


def test_cifar10_batches_without_meta_have_the_usual_names(cifar10, load):
    assert load("cifar10").classes[:2] == ("airplane", "automobile")


def test_batches_pickled_by_python_2_as_the_published_ones_are_read(source, cifar10, load):
    """Byte strings come back as latin-1 text, arrays through `_reconstruct` with such a text."""
    file = source / "cifar-10-batches-py" / "test_batch"
    pixels = b"\x07" * 3072 * 10
    shape = b"(I10\nI3072\nt"
    dtype = b"cnumpy\ndtype\n(U\x02u1I0\nI1\ntR(I3\nU\x01|NNNI-1\nI-1\nI0\ntb"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR(I1\n"
        + shape
        + dtype
        + b"I00\nT"
        + struct.pack("<i", len(pixels))
        + pixels
        + b"tb"
    )
    numbers = b"(lp0\n" + b"".join(b"I%d\na" % c for c in range(10))
    file.write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x06labels" + numbers + b"u.")
    data = load("cifar10")
    assert (data.test.images == 7).all()
    assert data.test.labels.tolist() == list(range(10))


def test_cifar100_batches_round_trip_with_fine_labels(source, load):
    images, labels = noise(1200, 3, 32, 32), cycle(1200, 100)
    folder = source / "cifar-100-python"
    write_cifar(folder, ["train", "test"], images, labels, "fine_labels")
    names = [f"fine {c}" for c in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}))
    data = load("cifar100")
    assert_holds(data, (images[:600], labels[:600]), (images[600:], labels[600:]))
    assert data.classes == tuple(names)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cifar_batch_is_named(damage, source, cifar10, load):
    damage(source / "cifar-10-batches-py" / "data_batch_2")
    with pytest.raises(DataError, match=r"data_batch_2 is damaged.*\n  try"):
        load("cifar10")


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("made-by-a-pickle",)


def test_a_pickle_that_would_run_code_is_refused(source, cifar10, load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = source / "cifar-10-batches-py" / "data_batch_1"
    file.write_bytes(pickle.dumps({"data": Harmful()}))
    with pytest.raises(DataError, match=r"data_batch_1.*asks for posix.mkdir"):
        load("cifar10")
    assert not (tmp_path / "made-by-a-pickle").exists()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "one whole number per image"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 10]}, "not within 0-9"),
        ({"data": np.zeros((2, 3072), np.uint8)}, "one whole number per image"),
        ({"data": np.zeros((2, 100), np.uint8), "labels": [0, 1]}, r"not \(N, 3072\)"),
        ({"data": np.zeros((2, 3072)), "labels": [0, 1]}, "not a 2-d array of bytes"),
        ([1, 2], "not a dictionary"),
    ],
)
def test_a_batch_of_wrong_content_is_named(batch, message, source, cifar10, load):
    (source / "cifar-10-batches-py" / "data_batch_4").write_bytes(pickle.dumps(batch))
    with pytest.raises(DataError, match=f"data_batch_4.*{message}"):
        load("cifar10")


def test_a_batch_of_published_size_must_have_the_published_checksum(cifar10, load, monkeypatch):
    """A flipped pixel in a full-size batch is invisible otherwise."""
    monkeypatch.setitem(cifar.CIFAR10_FILES, "data_batch_1", (20, "0" * 32))
    with pytest.raises(DataError, match=r"data_batch_1.*its md5 is"):
        load("cifar10")


# MNIST's idx files


def idx(array: Array) -> bytes:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, part: str, images: Array, labels: Array, *, packed: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = gzip.compress(idx(array)) if packed else idx(array)
        (folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}").write_bytes(content)


@pytest.fixture
def mnist(source):
    """Packed files in torchvision's folder: train and test as (images, labels)."""
    train = noise(60, 28, 28), cycle(60, 10)
    test = noise(20, 28, 28, seed=1), cycle(20, 10)
    write_mnist(source / "MNIST" / "raw", "train", *train, packed=True)
    write_mnist(source / "MNIST" / "raw", "t10k", *test, packed=True)
    return train, test


def with_channel(split: tuple[Array, Array]) -> tuple[Array, Array]:
    return split[0][:, None], split[1]


def test_packed_mnist_round_trips(mnist, load):
    data = load("mnist")
    assert_holds(data, *map(with_channel, mnist))
    assert data.augmentation == "digits"


def test_unpacked_mnist_in_the_folder_itself_round_trips(source, load):
    train, test = (noise(60, 28, 28), cycle(60, 10)), (noise(20, 28, 28), cycle(20, 10))
    write_mnist(source, "train", *train, packed=False)
    write_mnist(source, "t10k", *test, packed=False)
    assert_holds(load("mnist"), *map(with_channel, (train, test)))


def test_mnist_reads_what_torchvision_reads(source, mnist, load):
    from torchvision.datasets.mnist import read_image_file

    packed = source / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    unpacked = source / "t10k-images-idx3-ubyte"
    unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
    assert np.array_equal(load("mnist").test.images[:, 0], read_image_file(str(unpacked)))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["images-idx3", "labels-idx1"])
def test_a_damaged_idx_file_is_named(damage, packed, kind, source, load):
    for part in ("train", "t10k"):
        write_mnist(source, part, noise(60, 28, 28), cycle(60, 10), packed=packed)
    file = source / f"train-{kind}-ubyte{'.gz' if packed else ''}"
    damage(file)
    with pytest.raises(DataError, match=f"{file.name} is damaged"):
        load("mnist")


def test_a_flipped_byte_in_a_packed_idx_file_is_found(source, mnist, load):
    file = source / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is damaged"):
        load("mnist")


def test_labels_that_do_not_match_the_images_are_named(source, mnist, load):
    raw = source / "MNIST" / "raw"
    (raw / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(cycle(19, 10))))
    with pytest.raises(DataError, match=r"t10k-labels.*19 labels for 20 images"):
        load("mnist")
    (raw / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="incomplete: t10k-labels-idx1-ubyte missing"):
        load("mnist")


# STL-10's binary files


@pytest.fixture
def stl(source):
    """Train, unlabelled and test as (images, labels), written column by column."""
    splits = {
        "train": (noise(40, 3, 96, 96), cycle(40, 10)),
        "unlabeled": (noise(30, 3, 96, 96, seed=1), np.full(30, -1)),
        "test": (noise(20, 3, 96, 96, seed=2), cycle(20, 10)),
    }
    folder = source / "stl10_binary"
    folder.mkdir()
    for name, (images, labels) in splits.items():
        (folder / f"{name}_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
        if name != "unlabeled":
            (folder / f"{name}_y.bin").write_bytes((labels + 1).astype(np.uint8).tobytes())
    return splits


def test_stl10_round_trips_with_its_unlabelled_images_among_the_training_ones(stl, load):
    data = load("stl10")
    train, unlabelled, test = stl["train"], stl["unlabeled"], stl["test"]
    joined = tuple(np.concatenate(both) for both in zip(train, unlabelled, strict=True))
    assert_holds(data, joined, test)
    assert (data.train.labels == -1).sum() == 30
    assert len(data.val) == 4
    assert data.val.labels.min() >= 0


def test_stl10_in_chunks_smaller_than_a_split_is_the_same(stl, load, monkeypatch):
    monkeypatch.setattr(stl10, "CHUNK", 7)
    assert np.array_equal(load("stl10").test.images, stl["test"][0])


def test_stl10_limit_takes_its_share_of_the_unlabelled(stl, load):
    labels = load("stl10", train_limit=33).train.labels
    assert len(labels) == 33
    assert (labels == -1).sum() == pytest.approx(33 * 30 / 66, abs=2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_X.bin", b"\0" * 1000, "not whole images"),
        ("unlabeled_X.bin", b"", "not whole images"),
        ("train_y.bin", b"\1" * 39, "39 labels for 40 images"),
        ("test_y.bin", b"\0" * 20, "not within 1-10"),
    ],
)
def test_a_damaged_stl10_file_is_named(name, content, message, source, stl, load):
    (source / "stl10_binary" / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} is damaged.*{message}"):
        load("stl10")


def test_an_stl10_file_of_published_size_must_have_the_published_checksum(stl, load, monkeypatch):
    monkeypatch.setitem(stl10.FILES, "test_y.bin", (20, "0" * 32))
    with pytest.raises(DataError, match=r"test_y.bin.*its md5 is"):
        load("stl10")


# Class folders


def write_folders(root: Path, images: Array, labels: Array, names: list[str]) -> None:
    """One PNG per image (N, 3, H, W) in its class's folder."""
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = root / names[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{i:04}.png")


def test_class_folders_of_the_right_size_round_trip(source, load):
    names = ["ant", "bee", "cow"]
    train, test = (noise(36, 3, 32, 32), cycle(36, 3)), (noise(9, 3, 32, 32), np.arange(9) // 3)
    write_folders(source / "train", *train, names)
    write_folders(source / "test", *test, names)
    data = load("imagefolder")
    assert_holds(data, train, test)
    assert data.classes == tuple(names)


def test_class_folders_without_splits_are_carved_by_the_split_seed(source, load):
    write_folders(source, noise(60, 3, 32, 32), cycle(60, 3), ["a", "b", "c"])
    data, other = load("imagefolder"), load("imagefolder", split_seed=1)
    assert [len(s) for s in (data.train, data.val, data.test)] == [40, 10, 10]
    assert not np.array_equal(data.test.images, other.test.images)


def test_a_lone_validation_folder_is_the_test_split(source, load):
    held_out = noise(6, 3, 32, 32, seed=1), np.arange(6) // 3
    write_folders(source / "train", noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    write_folders(source / "val", *held_out, ["a", "b"])
    assert np.array_equal(load("imagefolder").test.images, held_out[0])


def test_split_folders_are_all_used_as_named(source, load):
    sizes = {"train": 20, "valid": 6, "test": 8}
    for name, n in sizes.items():
        write_folders(source / name, noise(n, 3, 32, 32, seed=n), np.sort(cycle(n, 2)), ["a", "b"])
    data = load("imagefolder")
    assert [len(s) for s in (data.train, data.val, data.test)] == [20, 6, 8]
    assert np.array_equal(data.val.images, noise(6, 3, 32, 32, seed=6))


def test_pictures_of_any_size_and_kind_become_rgb_of_one_size(source, load):
    for label, name in enumerate(("a", "b")):
        folder = source / name / "deeper"
        folder.mkdir(parents=True)
        for i, mode in enumerate(["RGB", "L", "RGBA", "P", "1", "CMYK"] * 3):
            picture = Image.new("RGB", (50 + 9 * i, 40), (200, 200, 200)).convert(mode)
            picture.save(folder / f"{i}.{'jpg' if mode == 'CMYK' else 'png'}")
        (folder / "notes.txt").write_text(f"no picture {label}")
        (folder / ".hidden.png").write_text("no picture")
    several = r"source have 18 sizes: 50x40 to 203x40 pixels.*\n  allowed.*\n  try: image_size: 32"
    with pytest.raises(DataError, match=several):
        load("imagefolder")
    data = load("imagefolder", image_size=24)
    assert data.train.images.shape[1:] == (3, 24, 24)
    # flat grey stays flat grey, but for the black-and-white pictures, which dither it
    flat = data.train.images.flatten(1).double()
    assert ((flat.mean(1) - 200).abs() < 20).all()


def test_a_wide_picture_is_cropped_not_squeezed(source, load):
    """A black bar in the outer thirds must not reach the middle."""
    for name in ("a", "b"):
        (source / name).mkdir()
        wide = np.zeros((64, 192, 3), np.uint8)
        wide[:, 64:128] = 255
        for i in range(12):
            Image.fromarray(wide).save(source / name / f"{i}.png")
    assert load("imagefolder").train.images.shape[1:] == (3, 64, 192)
    assert load("imagefolder", image_size=32).train.images.double().mean() > 250


def test_a_picture_on_its_side_has_the_size_that_it_is_shown_at(source, load):
    write_folders(source, noise(40, 3, 20, 30), cycle(40, 2), ["a", "b"])
    on_its_side = Image.new("RGB", (20, 30))
    turned = on_its_side.getexif()
    turned[0x0112] = 6  # to be shown turned by 90 degrees
    on_its_side.save(source / "a" / "turned.png", exif=turned)
    assert load("imagefolder").train.images.shape[1:] == (3, 20, 30)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_picture_is_named(damage, source, load):
    write_folders(source, noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    damage(source / "b" / "0007.png")
    with pytest.raises(DataError, match=r"b/0007.png is damaged"):
        load("imagefolder")


def test_16_bit_pictures_are_refused_rather_than_clipped(source, load):
    write_folders(source, noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    Image.fromarray(np.full((32, 32), 40_000, np.uint16)).save(source / "a" / "deep.png")
    with pytest.raises(DataError, match=r"deep.png.*pixels are not bytes"):
        load("imagefolder")


def test_an_empty_class_folder_is_named(source, load):
    write_folders(source, noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    (source / "c").mkdir()
    with pytest.raises(DataError, match="source/c holds no pictures"):
        load("imagefolder")


def test_a_class_of_the_test_folder_that_training_lacks_is_named(source, load):
    write_folders(source / "train", noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    write_folders(source / "test", noise(4, 3, 32, 32), cycle(4, 2), ["a", "z"])
    with pytest.raises(DataError, match=r"classes that .*train has not: z\n  allowed: a, b"):
        load("imagefolder")


def test_a_class_called_train_is_no_split(source, load):
    write_folders(source, noise(60, 3, 32, 32), cycle(60, 3), ["car", "test", "train"])
    assert load("imagefolder").classes == ("car", "test", "train")


# Parquet shards


def encode(image: Array, kind: str) -> bytes:
    """One image (C, H, W) as a losslessly encoded picture."""
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return stream.getvalue()


def write_shard(
    file: Path,
    images,
    labels,
    *,
    image: str = "img",
    label: str = "label",
    kind: str = "PNG",
    names: list[str] | None = None,
) -> None:
    rows = [i if i is None else {"bytes": encode(i, kind), "path": "x.png"} for i in images]
    struct_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({image: pa.array(rows, struct_type), label: pa.array(labels)})
    if names:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        info = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": info})
    pq.write_table(table, file, row_group_size=50)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize("image", ["img", "image"])
def test_cifar10_shards_round_trip(kind, image, source, load):
    images, labels = noise(120, 3, 32, 32), cycle(120, 10)
    names = [f"n{c}" for c in range(10)]
    for name, part in (
        ("train-00000-of-00002", slice(0, 50)),
        ("train-00001-of-00002", slice(50, 100)),
        ("test-00000-of-00001", slice(100, 120)),
    ):
        shard = source / f"{name}.parquet"
        write_shard(shard, images[part], labels[part], image=image, kind=kind, names=names)
    data = load("cifar10")
    assert_holds(data, (images[:100], labels[:100]), (images[100:], labels[100:]))
    assert data.classes == tuple(names)


def write_pair(source: Path, n: int = 40, *, shape=(3, 32, 32), classes=2, **options) -> None:
    write_shard(source / "train.parquet", noise(n, *shape), cycle(n, classes), **options)
    write_shard(source / "test.parquet", noise(10, *shape), cycle(10, classes), **options)


def test_shards_one_level_below_without_class_names_are_found(source, load):
    (source / "plain_text").mkdir()
    write_pair(source / "plain_text", classes=4)
    assert load("parquet").classes == ("0", "1", "2", "3")
    assert load("cifar10").classes[9] == "truck"


def test_cifar100_shards_use_the_fine_label(source, load):
    write_pair(source, 1000, classes=100, label="fine_label")
    assert load("cifar100").train.labels.max() == 99


def test_grey_shards_keep_one_channel(source, load):
    write_pair(source, shape=(1, 28, 28), image="image", classes=10)
    assert load("mnist").train.images.shape[1:] == (1, 28, 28)
    assert load("parquet").train.images.shape[1:] == (1, 28, 28)


def test_generic_shards_may_lack_test_and_hold_large_pictures(source, load):
    write_shard(source / "train-00000-of-00001.parquet", noise(60, 3, 120, 100), cycle(60, 3))
    data = load("parquet")
    assert data.train.images.shape == (40, 3, 120, 100)
    assert len(data.test) == len(data.val) == 10
    assert load("parquet", image_size=32).train.images.shape == (40, 3, 32, 32)


def test_generic_shards_may_hold_unlabelled_training_images(source, load):
    labels = [0, 1, -1, None] * 10
    write_shard(source / "train.parquet", noise(40, 3, 32, 32), labels)
    write_shard(source / "test.parquet", noise(4, 3, 32, 32), [0, 1, 0, 1])
    data = load("parquet")
    assert (data.train.labels == -1).sum() == 20
    assert len(data.val) == 2


def test_an_unlabelled_test_split_is_refused(source, load):
    write_shard(source / "train.parquet", noise(40, 3, 32, 32), cycle(40, 2))
    write_shard(source / "test.parquet", noise(4, 3, 32, 32), [-1] * 4)
    with pytest.raises(DataError, match=r"test split of .*without a label"):
        load("parquet")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_named(damage, source, load):
    write_pair(source)
    damage(source / "test.parquet")
    with pytest.raises(DataError, match=r"test.parquet is damaged"):
        load("cifar10")


def test_garbled_pages_behind_an_intact_footer_are_named(source, load):
    write_pair(source)
    file = source / "train.parquet"
    content = bytearray(file.read_bytes())
    content[4:5000] = b"\xff" * 4996
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"train.parquet is damaged"):
        load("cifar10")


def test_a_missing_shard_is_named(source, load):
    write_shard(source / "train-00000-of-00002.parquet", noise(20, 3, 32, 32), cycle(20, 2))
    write_shard(source / "test.parquet", noise(20, 3, 32, 32), cycle(20, 2))
    with pytest.raises(DataError, match=r"train-00001-of-00002.parquet is missing"):
        load("cifar10")


def test_train_shards_without_test_shards_are_refused_for_a_published_dataset(source, load):
    write_shard(source / "train.parquet", noise(20, 3, 32, 32), cycle(20, 2))
    with pytest.raises(DataError, match="train shards but no test shards"):
        load("cifar10")


def test_a_broken_picture_is_named_with_its_row(source, load):
    write_pair(source)
    table = pq.read_table(source / "train.parquet").to_pydict()
    table["img"][33]["bytes"] = table["img"][33]["bytes"][:40]
    pq.write_table(pa.table(table), source / "train.parquet")
    with pytest.raises(DataError, match=r"train.parquet.*row 33: not a whole picture"):
        load("cifar10")


def test_a_picture_of_another_size_is_refused_where_the_size_is_published(source, load):
    images = [*noise(39, 3, 32, 32), noise(1, 3, 16, 16)[0]]
    write_pair(source)
    write_shard(source / "train.parquet", images, cycle(40, 2))
    with pytest.raises(DataError, match=r"row 39: it is 16x16, not 32x32"):
        load("cifar10")
    with pytest.raises(DataError, match=r"row 39 of .* have 2 sizes: 16x16, 32x32.*\n.*\n  try"):
        load("parquet")
    assert load("parquet", image_size=32).train.images.shape[1:] == (3, 32, 32)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["cat", "dog"] * 20, {}, "column label holds string"),
        ([0.5] * 40, {}, "column label holds double"),
        ([0, 5] * 20, {"names": ["a", "b"]}, "not within 0-1"),
        ([0, -2] * 20, {"names": ["a", "b"]}, "not within 0-1"),
        ([0, 1] * 20, {"label": "klass"}, "no column label; it has img, klass"),
        ([0, 1] * 20, {"image": "photo"}, "no column img or image; it has photo, label"),
    ],
)
def test_columns_of_another_kind_are_named(labels, options, message, source, load):
    write_shard(source / "train.parquet", noise(40, 3, 32, 32), labels, **options)
    with pytest.raises(DataError, match=f"train.parquet.*{message}"):
        load("parquet")


def test_a_row_without_a_picture_is_named(source, load):
    images = [*noise(39, 3, 32, 32), None]
    write_shard(source / "train.parquet", images, cycle(40, 2))
    with pytest.raises(DataError, match=r"train.parquet.*row 39"):
        load("parquet")


# The size of the images


def every(data: Dataset) -> list[tuple[int, bytes]]:
    """All images with their labels, whatever their split and order."""
    return sorted(
        pair
        for split in (data.train, data.val, data.test)
        for pair in pairs(split.images.numpy(), split.labels.numpy())
    )


@pytest.mark.parametrize("size", [8, 20, 48])
def test_every_layout_resizes_alike(size, tmp_path):
    """The same pictures as CIFAR's batches, as its shards and as class folders."""
    images, labels = noise(60, 3, 32, 32), cycle(60, 10)
    batches, shards, folders = (tmp_path / name for name in ("batches", "shards", "folders"))
    write_cifar(
        batches / "cifar-10-batches-py", list(cifar.CIFAR10_FILES), images, labels, "labels"
    )
    shards.mkdir()
    write_shard(shards / "train.parquet", images[:50], labels[:50])
    write_shard(shards / "test.parquet", images[50:], labels[50:])
    for split, part in (("train", slice(50)), ("test", slice(50, None))):
        names = [f"class{c}" for c in range(10)]
        write_folders(folders / split, images[part], labels[part], names)
    found = [
        load_dataset(name, path=path, cache_dir=tmp_path / "cache", image_size=size)
        for name, path in (("cifar10", batches), ("cifar10", shards), ("imagefolder", folders))
    ]
    for data in found:
        assert data.train.images.shape[1:] == (3, size, size)
        assert every(data) == every(found[0])


def test_a_resized_image_is_the_mean_of_what_it_covers(source, load):
    """Flat halves stay flat, and left stays left: neither squeezed, turned nor mirrored."""
    images = np.zeros((120, 3, 32, 32), np.uint8)
    images[:, 0, :, :16] = 200
    images[:, 1, 16:] = 100
    folder = source / "cifar-10-batches-py"
    write_cifar(folder, list(cifar.CIFAR10_FILES), images, cycle(120, 10), "labels")
    small = load("cifar10", image_size=8).test.images.double()
    assert (small[:, 0, :, :3] == 200).all()
    assert (small[:, 0, :, 5:] == 0).all()
    assert (small[:, 1, 5:] == 100).all()
    assert (small[:, 2] == 0).all()
    assert abs(small[:, 0].mean() - 100) < 2


def test_the_own_size_is_one_entry_of_the_cache_and_another_size_another(stl, load, tmp_path):
    own, same, small = load("stl10"), load("stl10", image_size=96), load("stl10", image_size=32)
    assert own.train.images.shape[1:] == same.train.images.shape[1:] == (3, 96, 96)
    assert small.train.images.shape[1:] == (3, 32, 32)
    assert len(small.train) == len(own.train)
    assert np.array_equal(small.train.labels, own.train.labels)
    entries = [e.name for e in (tmp_path / "cache").iterdir() if e.is_dir()]
    assert len(entries) == 4  # each with the source as decoded, and one choice from it
    assert sum("-32px" in name for name in entries) == 2


def test_grey_images_are_resized_too(tmp_path):
    data = load_dataset("digits", cache_dir=tmp_path, image_size=16)
    assert data.train.images.shape == (1197, 1, 16, 16)
    assert data.train.images.max() > 200


def test_images_beyond_the_memory_are_refused_before_any_is_decoded(source, load, monkeypatch):
    write_folders(source, noise(40, 3, 32, 32), cycle(40, 2), ["a", "b"])
    monkeypatch.setattr("contrastive.data.memory.total_memory", lambda: 2_000_000_000)

    def decoded(*args):
        pytest.fail("a picture was decoded")

    monkeypatch.setattr("contrastive.data.formats.folders.open_picture", decoded)
    message = (
        r"the 40 images of imagefolder of 5000x5000 pixels, 3.0 GB, do not fit into the 2.0 GB "
        r"of memory of this machine\n  allowed: image_size up to 4,082\n  try: image_size: 96"
    )
    with pytest.raises(DataError, match=message) as refused:
        load("imagefolder", image_size=5000)
    assert refused.value.settings[0] == "image_size"
