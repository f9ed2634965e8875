"""Passwords, tokens and keys are shown to nobody: all that is printed or kept is masked."""

from __future__ import annotations

import contextlib
import os
import re

from analysis.broken_pipe import Stream, printing_to

MASK = "***"
# user:password@ of an address; what stands alone before the @ may be a token.
_IN_ADDRESS = re.compile(r"(?<=://)(?:([^\s/?#:@]+):)?[^\s/?#]*@")
_IN_QUERY = re.compile(
    r"(?i)([?&;][\w.-]*(?:password|passwd|pwd|secret|token|signature|credential|access_?key|api_?key)"
    r"[\w.-]*=)[^&\s#;'\"]+"
)
_SECRET_NAME = re.compile(r"(?i)PASSWORD|PASSWD|SECRET|TOKEN$|API_?KEY|ACCESS_KEY$")
_SHORTEST = 8  # a value of fewer characters is also a word of other texts


def masked(text: str) -> str:
    """A text without the secrets in addresses, and without those in this process's variables.

    Example:
        >>> masked("postgresql://me:secret@host/db?token=abc")
        'postgresql://me:***@host/db?token=***'
    """
    if "@" in text:
        text = _IN_ADDRESS.sub(lambda m: f"{m[1]}:{MASK}@" if m[1] else f"{MASK}@", text)
    if "=" in text:
        text = _IN_QUERY.sub(rf"\1{MASK}", text)
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and value in text and _SECRET_NAME.search(name):
            text = text.replace(value, MASK)
    return text


class _Masking(Stream):
    """A stream that masks what is written to it."""

    def write(self, text: str) -> int:
        self._stream.write(masked(text))
        return len(text)


def masked_output() -> contextlib.AbstractContextManager[None]:
    """Mask what is printed in the block, by libraries too."""
    return printing_to(_Masking)
