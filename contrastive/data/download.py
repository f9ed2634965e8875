"""The download of published datasets, with a bounded wait for an offline user.

torchvision knows the addresses and checks what it fetched; this module bounds the wait and turns
its many exceptions into one.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contrastive.messages import first_line

PROBE_S = 10.0  # for a server's first answer, name lookup included
STALL_S = 30.0  # for each further packet


class DownloadFailed(Exception):
    """A download that did not succeed, with the reason in one line."""


def into(folder: Path, fetch: Callable[[Path], None], *, there: Callable[[], bool]) -> None:
    """Fetch beside `folder` and move what came into it when it is whole.

    Args:
        folder: where the dataset is to lie.
        fetch: downloads and unpacks into the folder that it is given.
        there: whether the dataset is in `folder`; processes that ask at once wait for the
            first, and find it there.

    Raises:
        DownloadFailed: whatever went wrong, in one line.
    """
    from filelock import FileLock

    made_parent = not folder.parent.exists()
    lock = folder.with_name(f".{folder.name}.lock")
    unfinished = folder.with_name(f".{folder.name}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock), _stalling_at_most(STALL_S):
            if there():
                return
            fetch(unfinished)
            folder.mkdir(exist_ok=True)
            for item in unfinished.iterdir():
                item.replace(folder / item.name)
            unfinished.rmdir()
    except Exception as error:  # urllib, tarfile, md5 mismatch, a torchvision that cannot load
        with contextlib.suppress(OSError):
            lock.unlink(missing_ok=True)
            if made_parent:
                folder.parent.rmdir()  # only if it is empty
        raise DownloadFailed(first_line(error)) from error


def cifar10(folder: Path) -> None:
    """Fetch CIFAR-10 (170 MB) as `folder`/cifar-10-batches-py."""
    _torchvision("CIFAR10", folder, train=True)


def cifar100(folder: Path) -> None:
    """Fetch CIFAR-100 (169 MB) as `folder`/cifar-100-python."""
    _torchvision("CIFAR100", folder, train=True)


def mnist(folder: Path) -> None:
    """Fetch MNIST (12 MB) as `folder`/MNIST/raw."""
    _torchvision("MNIST", folder, train=True)


def stl10(folder: Path) -> None:
    """Fetch STL-10 (2.6 GB) as `folder`/stl10_binary."""
    _torchvision("STL10", folder, split="test")


def _torchvision(name: str, folder: Path, **options: Any) -> None:
    from torchvision import datasets

    kind = getattr(datasets, name)
    addresses = [kind.url] if hasattr(kind, "url") else list(kind.mirrors)
    reasons = [_unreachable(address) for address in addresses]
    if all(reasons):
        raise DownloadFailed(
            "; ".join(f"{a}: {r}" for a, r in zip(addresses, reasons, strict=True))
        )
    with contextlib.redirect_stdout(sys.stderr):  # torchvision prints; stdout is the caller's
        kind(str(folder), download=True, **options)


def _unreachable(address: str) -> str | None:
    """Why `address` does not answer, None when it does.

    Asked in a separate thread, since a name lookup has no timeout.
    """
    outcome: list[str | None] = [f"no answer within {PROBE_S:.0f} s"]

    def probe() -> None:
        request = urllib.request.Request(address, method="HEAD")
        try:
            with urllib.request.urlopen(request, timeout=PROBE_S):
                outcome[0] = None
        except urllib.error.HTTPError:
            outcome[0] = None  # it answered; a mirror's root folder may well say 403
        except Exception as error:  # anything else would print a traceback from the thread
            outcome[0] = str(getattr(error, "reason", error))

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(PROBE_S)
    return outcome[0]


@contextlib.contextmanager
def _stalling_at_most(seconds: float) -> Iterator[None]:
    """torchvision passes no timeout to urllib; the socket module's default is the only handle."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
