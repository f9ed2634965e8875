"""Seeds of a search, derived from the study's."""

from __future__ import annotations

import hashlib


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, independent of those for all other purposes.

    Example:
        >>> derive(0, "sampler", 1) == derive(0, "sampler", 2)
        False
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
