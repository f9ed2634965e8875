"""The store of a study that has an address instead of a folder, through pyarrow.

`s3://bucket/prefix`, `gs://bucket/prefix` and `file:///folder`, through pyarrow's file systems.
Options of theirs may follow a question mark: `s3://b/p?endpoint_override=minio:9000&scheme=http`.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow
from pyarrow import fs

from study.errors import StudyError, listing

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "file")
# Options that choose between stores whose buckets may have the same name.
_PLACING = ("endpoint_override", "region", "blob_storage_authority", "dfs_storage_authority")
_CHUNK = 2**22  # bytes
_GIVE_UP_S = 20  # pyarrow retries Google's stores for a quarter of an hour


class StoreError(Exception):
    """The store did not do what it was asked to; the text says what it answered."""


def is_address(storage: str) -> bool:
    """Whether `--storage` names a store and not a folder."""
    return "://" in storage


def shown(address: str) -> str:
    """An address without its options, for people."""
    scheme, mark, rest = address.partition("?")[0].partition("://")
    return f"{scheme}{mark}{rest.rstrip('/')}"


def place(address: str) -> str:
    """What tells the store at an address from all others: never a secret, and no other option.

    Buckets of one name at two endpoints are two; `scheme=http` reaches the same one in another way.
    """
    chosen = sorted(set(parse_qsl(urlsplit(address).query)))
    options = urlencode([(name, value) for name, value in chosen if name in _PLACING])
    return f"{shown(address)}?{options}" if options else shown(address)


class Store:
    """The objects of one study at an address, by their paths within the study's folder.

    Args:
        address: as the user gave it.
        name: of the study.

    Raises:
        StudyError: this is no address of a kind that can be used.
    """

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = f"{shown(address)}/{name}", name
        self._files, self._above = _opened(address)
        self._root = f"{self._above}/{name}"

    def read(self, name: str) -> bytes | None:
        """An object's content, or None if there is none."""
        with _as_store_errors():
            try:
                with self._files.open_input_stream(f"{self._root}/{name}") as stream:
                    return stream.read()
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        """Put an object in place as a whole: readers find the old or the new one."""
        self._put(name, io.BytesIO(content))

    def copy(self, file: Path, name: str) -> None:
        """Put a file of this machine in place.

        Raises:
            FileNotFoundError: there is no such file here (any more).
        """
        with file.open("rb") as opened:
            self._put(name, opened)

    def _put(self, name: str, content: BinaryIO) -> None:
        path = f"{self._root}/{name}"
        with _as_store_errors():
            if self._files.type_name != "local":  # an object is there when its stream is closed
                with self._files.open_output_stream(path) as stream:
                    shutil.copyfileobj(content, stream, _CHUNK)
                return
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(f"{path}.part") as stream:
                shutil.copyfileobj(content, stream, _CHUNK)
            self._files.move(f"{path}.part", path)

    def remove(self, name: str) -> None:
        """Delete an object, if it is there."""
        with _as_store_errors(), contextlib.suppress(FileNotFoundError):
            self._files.delete_file(f"{self._root}/{name}")

    def below(self, start: str) -> list[str]:
        """Names of all objects whose name begins with a folder, `checkpoints/` say."""
        selector = fs.FileSelector(
            f"{self._root}/{start.rstrip('/')}", recursive=True, allow_not_found=True
        )
        with _as_store_errors():
            found = self._files.get_file_info(selector)
        files = (entry.path for entry in found if entry.type == fs.FileType.File)
        return sorted(path.removeprefix(f"{self._root}/") for path in files)

    def fetch(self, folder: Path) -> None:
        """Copy all objects into an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        with _as_store_errors():
            fs.copy_files(
                self._root,
                str(folder),
                source_filesystem=self._files,
                destination_filesystem=fs.LocalFileSystem(),
            )

    def free_name(self) -> str:
        """A name that no study has there."""
        number = 2
        with _as_store_errors():
            while self._exists(f"{self._above}/{self.name}-{number}/study.yaml"):
                number += 1
        return f"{self.name}-{number}"

    def studies(self) -> list[str]:
        """Names of all studies at the address."""
        selector = fs.FileSelector(self._above, allow_not_found=True)
        with _as_store_errors():
            found = self._files.get_file_info(selector)
            names = sorted(e.base_name for e in found if e.type == fs.FileType.Directory)
            return [name for name in names if self._exists(f"{self._above}/{name}/study.yaml")]

    def holds(self, name: str) -> bool:
        """Whether there is such an object."""
        with _as_store_errors():
            return self._exists(f"{self._root}/{name}")

    def _exists(self, path: str) -> bool:
        return self._files.get_file_info(path).type == fs.FileType.File


@contextlib.contextmanager
def _as_store_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        raise StoreError(_first_line(error)) from None


def _opened(address: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(address)
    allowed = f"  allowed: {listing(f'{scheme}://…' for scheme in SCHEMES)}, or a folder"
    if parts.scheme not in SCHEMES:
        raise StudyError(f"--storage {shown(address)} is no address that can be used\n{allowed}")
    if (
        parts.password
        or (parts.username and not parts.scheme.startswith("abfs"))
        or ("secret" in parts.query)
    ):
        raise StudyError(
            "--storage holds credentials, which would be written into the study's log of commands\n"
            "  try: leave them to the environment (AWS_ACCESS_KEY_ID, "
            "GOOGLE_APPLICATION_CREDENTIALS, …) or to the machine's role"
        )
    if parts.scheme in ("gs", "gcs") and "retry_limit_seconds" not in parts.query:
        address += f"{'&' if parts.query else '?'}retry_limit_seconds={_GIVE_UP_S}"
    try:
        files, path = fs.FileSystem.from_uri(address)
    except (OSError, pyarrow.ArrowException) as error:
        raise StudyError(
            f"--storage {shown(address)} cannot be used: {_first_line(error)}\n{allowed}"
        ) from None
    path = path.rstrip("/")
    if not path:
        raise StudyError(
            f"--storage {shown(address)} names no bucket or folder\n"
            f"  try: {'file:///folder' if parts.scheme == 'file' else f'{parts.scheme}://bucket'}"
            "/studies"
        )
    return files, path


def _first_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0].partition("; Details")[0]
    return text or type(error).__name__
