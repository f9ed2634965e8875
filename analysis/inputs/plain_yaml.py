"""The YAML that this project reads: plain values of bounded size, refused with their line else.

PyYAML raises all kinds of errors for scalars that look like dates or numbers and are none, follows
aliases however often they multiply, and takes seconds for a megabyte. `Loader` bounds all of it.
"""

from __future__ import annotations

import datetime
import unicodedata
from typing import Any

import yaml

MOST_CHARACTERS = 200_000  # some two seconds of PyYAML's
MOST_VALUES = 50_000  # with what aliases repeat
DEEPEST = 21
WIDEST = 2**63  # whole numbers below it fit into 64 bits, as tables and libraries need

_PLAIN = (str, int, float, bool, type(None), datetime.date)  # a datetime is a date
# They turn the direction of what a terminal shows after them.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Unusable(yaml.MarkedYAMLError):
    """Valid YAML that nothing here can use.

    Attributes:
        allowed, remedy: for the message.
    """

    def __init__(self, problem: str, mark: Any, allowed: str, remedy: str = "") -> None:
        super().__init__(None, None, problem, mark)
        self.allowed, self.remedy = allowed, remedy


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader within bounds; raises `yaml.MarkedYAMLError` and nothing else."""

    def __init__(self, stream: str) -> None:
        if len(stream) > MOST_CHARACTERS:
            mark = yaml.Mark("", 0, 0, 0, None, None)
            what = f"the file has more than {MOST_CHARACTERS:,} characters"
            raise Unusable(what, mark, f"at most {MOST_CHARACTERS:,}", "generate fewer entries")
        super().__init__(stream)
        self._depth = 0
        self._measured: dict[int, tuple[int, int]] = {}  # node -> values and levels, repeated ones

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        self._depth += 1
        # Before going down: PyYAML's own recursion ends at some 100 levels, in a traceback.
        self._check_depth(self._depth, event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent) and id(node) not in self._measured:
            what = f"the alias *{event.anchor} stands within its own anchor"
            raise Unusable(what, event.start_mark, "aliases of what is complete before them")
        self._measure(node, event.start_mark)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        try:
            value = super().construct_object(node, deep)
        except yaml.YAMLError:
            raise
        except Exception as error:  # whatever int(), date() and the like raise
            kind = _KINDS.get(node.tag.rpartition(":")[2], f"a {node.tag}")
            what = f"{_short(node.value)} looks like {kind} and is none"
            remedy = f'"{_short(node.value)}", in quotes, if it is a text'
            raise Unusable(what, node.start_mark, kind + ", or a text in quotes", remedy) from error
        if wrong := unusable(value):
            raise Unusable(wrong[0], node.start_mark, *wrong[1:])
        return value

    def _measure(self, node: Any, mark: Any) -> None:
        """Note how many values a node stands for, its aliases followed, and how deep they lie."""
        if id(node) in self._measured:
            return
        below = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            below = [part for pair in below for part in pair]
        found = [self._measured[id(part)] for part in below]
        values = 1 + sum(count for count, _ in found)
        levels = 1 + max((depth for _, depth in found), default=0)
        if values > MOST_VALUES:
            what = f"more than {MOST_VALUES:,} values, with those that aliases repeat"
            raise Unusable(what, mark, f"at most {MOST_VALUES:,}", "fewer aliases of aliases")
        self._check_depth(levels, mark)
        self._measured[id(node)] = values, levels

    @staticmethod
    def _check_depth(levels: int, mark: Any) -> None:
        if levels > DEEPEST:
            what = f"nested too deeply, in more than {DEEPEST - 1} levels"
            raise Unusable(what, mark, f"at most {DEEPEST - 1} levels", "close a bracket earlier")


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
    "null": "null",
}


def unusable(value: Any) -> tuple[str, str, str] | None:
    """What is wrong with a single value, what is allowed, what to try; None if nothing is."""
    if isinstance(value, str):
        return _unprintable(value)
    if not isinstance(value, _PLAIN):
        return (
            f"a value of the type {type(value).__name__}",
            "texts, numbers, true, false, null",
            "",
        )
    if isinstance(value, int) and not -WIDEST <= value < WIDEST:
        shown = f"{value.bit_length()} bits"
        return (
            f"a whole number of {shown}",
            "whole numbers of at most 64 bits",
            "1.0e+20, with a dot",
        )
    return None


def control_character(text: str, *, lines: bool = False) -> str | None:
    """The first character that cannot be shown, as U+XXXX: a terminal might obey it.

    Args:
        text: to be looked through.
        lines: let line breaks and tabs pass.

    Example:
        >>> control_character("a\x1b[31mb"), control_character("τ⁺")
        ('U+001B', None)
    """
    for character in text if not text.isprintable() else ():
        wrong = character in _TURNING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        if wrong and not (lines and character in "\n\t"):
            return f"U+{ord(character):04X}"
    return None


def _unprintable(text: str) -> tuple[str, str, str] | None:
    found = control_character(text, lines=True)
    if not found:
        return None
    kind = "half of a character" if "U+D800" <= found <= "U+DFFF" else "a control character"
    return f"{_short(text)} contains {kind}, {found}", "text that can be shown", "leave it out"


def _short(text: str) -> str:
    shown = ascii(text)[1:-1] if control_character(text) else text
    return shown if len(shown) <= 40 else shown[:37] + "..."
