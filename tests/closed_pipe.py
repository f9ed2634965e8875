"""A pipe that nobody reads any more, as after `| head -1`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def closed_pipe() -> Iterator[int]:
    """The writing end of it."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)
