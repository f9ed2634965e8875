"""Are files looked for where the documentation says, and is an offline user told so soon?"""

from __future__ import annotations

import hashlib
import http.server
import pickle
import shutil
import tarfile
import threading
import time
import urllib.error
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from contrastive.data import DataError, download, load_dataset

real_torchvision = download._torchvision
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty working directory, no data folder in the environment, no network."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("CONTRASTIVE_DATA", raising=False)
    monkeypatch.setenv("CONTRASTIVE_CACHE", str(tmp_path / "cache"))

    def offline(*args, **kwargs):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(download, "_torchvision", offline)


def write_cifar10(folder: Path, *, value: int) -> None:
    """Six batches of 20 plain images of one brightness."""
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for name in BATCHES:
        batch = {"data": np.full((20, 3072), value, np.uint8), "labels": [*range(10)] * 2}
        (place / name).write_bytes(pickle.dumps(batch, protocol=2))


@pytest.fixture
def serve(tmp_path):
    """Serve `tmp_path`/public on this machine alone; yields its address."""
    (tmp_path / "public").mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "public")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def brightness(data) -> int:
    return int(data.train.images[0, 0, 0, 0])


def test_environment_comes_before_the_working_directory_and_a_path_before_both(
    tmp_path, monkeypatch
):
    write_cifar10(Path("data/cifar10"), value=1)
    assert brightness(load_dataset("cifar10")) == 1
    monkeypatch.setenv("CONTRASTIVE_DATA", str(tmp_path / "all"))
    assert brightness(load_dataset("cifar10")) == 1  # nothing there yet
    write_cifar10(tmp_path / "all" / "cifar10", value=2)
    assert brightness(load_dataset("cifar10")) == 2
    write_cifar10(tmp_path / "mine", value=3)
    assert brightness(load_dataset("cifar10", path=tmp_path / "mine")) == 3
    assert brightness(load_dataset("cifar10", path=tmp_path / "mine/cifar-10-batches-py")) == 3


def test_an_absent_dataset_says_where_it_was_looked_for_and_both_ways_to_provide_it(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("CONTRASTIVE_DATA", str(tmp_path / "all"))
    with pytest.raises(DataError) as caught:
        load_dataset("cifar10")
    message = str(caught.value)
    assert str(tmp_path / "all" / "cifar10") in message
    assert str(tmp_path / "work" / "data" / "cifar10") in message
    assert "downloading it failed: <urlopen error Name or service not known>" in message
    assert "cifar-10-batches-py" in message
    assert "train-*.parquet" in message
    assert "dataset_path" in message
    assert list(Path().iterdir()) == []  # a failed download leaves nothing behind


def test_a_given_path_is_the_only_place_and_nothing_is_downloaded(tmp_path, monkeypatch):
    write_cifar10(Path("data/cifar10"), value=1)
    monkeypatch.setattr(download, "into", lambda *a, **k: pytest.fail("downloaded"))
    with pytest.raises(DataError, match=r"nowhere \(no such folder\)"):
        load_dataset("cifar10", path=tmp_path / "nowhere")


def test_downloading_can_be_switched_off():
    with pytest.raises(DataError, match="downloading is switched off"):
        load_dataset("mnist", download=False)


@pytest.mark.parametrize("name", ["imagefolder", "parquet"])
def test_what_cannot_be_downloaded_asks_for_a_path(name):
    with pytest.raises(DataError, match=r"(?s)no download.*dataset_path"):
        load_dataset(name)


def test_a_download_is_used_and_moved_into_place_when_whole(monkeypatch):
    def fetch(name, folder, **options):
        assert (name, folder.name) == ("CIFAR10", ".cifar10.part")
        write_cifar10(folder, value=9)

    monkeypatch.setattr(download, "_torchvision", fetch)
    assert brightness(load_dataset("cifar10")) == 9
    assert Path("data/cifar10/cifar-10-batches-py/test_batch").is_file()
    assert not Path("data/.cifar10.part").exists()


def md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def test_torchvision_fetches_unpacks_and_checks(serve, tmp_path, monkeypatch, capsys):
    """The whole way, from an archive on a server to images."""
    from torchvision.datasets import CIFAR10

    write_cifar10(tmp_path, value=5)
    folder, archive = tmp_path / CIFAR10.base_folder, tmp_path / "public" / CIFAR10.filename
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    monkeypatch.setattr(download, "_torchvision", real_torchvision)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(CIFAR10, "url", f"{serve}/{archive.name}")
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive))
    monkeypatch.setattr(CIFAR10, "train_list", [[n, md5(folder / n)] for n in BATCHES[:5]])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5(folder / "test_batch")]])
    meta = {**CIFAR10.meta, "md5": md5(folder / "batches.meta")}
    monkeypatch.setattr(CIFAR10, "meta", meta)

    assert brightness(load_dataset("cifar10")) == 5
    assert load_dataset("cifar10", download=False).classes == tuple("abcdefghij")
    assert capsys.readouterr().out == ""

    monkeypatch.setattr(CIFAR10, "tgz_md5", "0" * 32)  # a download that arrives damaged
    shutil.rmtree("data")
    with pytest.raises(DataError, match="downloading it failed: File not found or corrupted"):
        load_dataset("cifar10")


def test_a_process_that_waited_for_the_download_finds_it_there(tmp_path):
    download.into(tmp_path / "data" / "x", lambda folder: pytest.fail("again"), there=lambda: True)


def test_an_offline_machine_answers_at_once_even_when_name_lookup_hangs(monkeypatch):
    monkeypatch.setattr(download, "PROBE_S", 0.2)
    enough = threading.Event()

    def hang(*args, **kwargs):
        enough.wait(30)
        raise urllib.error.URLError("at last")

    monkeypatch.setattr(download.urllib.request, "urlopen", hang)
    start = time.perf_counter()
    assert download._unreachable("https://example.org") == "no answer within 0 s"
    assert time.perf_counter() - start < 2
    enough.set()


@pytest.mark.parametrize(
    ("error", "reachable"),
    [
        (urllib.error.URLError("refused"), False),
        (TimeoutError("timed out"), False),
        (urllib.error.HTTPError("https://example.org", 403, "forbidden", None, None), True),
    ],
)
def test_a_server_that_answers_anything_counts_as_reachable(error, reachable, monkeypatch):
    def urlopen(*args, **kwargs):
        raise error

    monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)
    assert (download._unreachable("https://example.org") is None) == reachable


def test_an_incomplete_folder_names_what_is_missing(tmp_path):
    write_cifar10(tmp_path, value=1)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(DataError, match=r"cifar-10-batches-py is incomplete: data_batch_3 missing"):
        load_dataset("cifar10", path=tmp_path)


def test_changed_source_files_are_decoded_again(tmp_path):
    write_cifar10(tmp_path / "a", value=1)
    assert brightness(load_dataset("cifar10", path=tmp_path / "a")) == 1
    (tmp_path / "a" / "cifar-10-batches-py").rename(tmp_path / "old")
    time.sleep(0.02)  # another mtime on file systems with coarse clocks
    write_cifar10(tmp_path / "a", value=2)
    assert brightness(load_dataset("cifar10", path=tmp_path / "a")) == 2
