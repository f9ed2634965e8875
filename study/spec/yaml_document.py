"""A YAML document with the line of every key and item."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

import yaml

from analysis.inputs import plain_yaml
from study.errors import Fault, Path, SpecError, dotted

_ONE_KEY: Path = ("trial", "budget")  # a profile's views replace the file's seconds


class Loader(plain_yaml.Loader):
    """The loader of plain YAML, reading `1e-3` as the number that YAML 1.2 says it is."""


Loader.yaml_implicit_resolvers = {
    first: list(found) for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


class Document:
    """Plain data from a YAML text, with the place of every key and item.

    Attributes:
        data: mappings, lists and scalars.
        places: `file:line` (or the option that set it) by path of keys.
        faults: keys given twice, which YAML forbids and parsers silently accept.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: Any = {}
        self.places: dict[Path, str] = {(): name}
        self.faults: list[Fault] = []

    def copied(self) -> Document:
        """Another document with the same content."""
        other = Document(self.name)
        other.data, other.places = copy.deepcopy(self.data), dict(self.places)
        return other

    def place(self, path: Path) -> str:
        """Where `path`, or the nearest thing around it that exists, was written."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def merge(self, over: Any, path: Path, places: dict[Path, str]) -> None:
        """Lay `over` on the data at `path`: mappings are merged, all else is replaced.

        The budget of a training is replaced too, since it has one key.
        """
        self.data = self._merged(self.data, path, over, (), places)

    def find(self, path: Path) -> Any:
        """What stands at `path`; None if nothing does."""
        found = self.data
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def remove(self, path: Path) -> None:
        """Take out the key at `path`, which exists, and all below it."""
        above = dict(self.find(path[:-1]))
        del above[path[-1]]
        self.data = _replaced(self.data, path[:-1], above)
        self.places = {p: at for p, at in self.places.items() if p[: len(path)] != path}

    def _merged(self, base: Any, path: Path, over: Any, at: Path, places: dict[Path, str]) -> Any:
        if path:
            base = dict(base) if isinstance(base, dict) else {}
            base[path[0]] = self._merged(base.get(path[0]), path[1:], over, (*at, path[0]), places)
            self.places.setdefault((*at, path[0]), places[()])
            return base
        if isinstance(base, dict) and isinstance(over, dict) and at != _ONE_KEY:
            merged = dict(base)
            for key, value in over.items():
                below = {p[1:]: place for p, place in places.items() if p[:1] == (key,)}
                merged[key] = self._merged(base.get(key), (), value, (*at, key), below)
            return merged
        self.places = {p: place for p, place in self.places.items() if p[: len(at)] != at}
        self.places |= {at + p: place for p, place in places.items()}
        return over


def _replaced(data: Any, path: Path, value: Any) -> Any:
    """A copy of nested mappings with another value at `path`: an alias may share them."""
    if not path:
        return value
    return data | {path[0]: _replaced(data[path[0]], path[1:], value)}


def read(file: FilePath, shown: str) -> Document:
    """Parse a YAML file.

    Args:
        file: to read.
        shown: its name in messages.

    Raises:
        OSError, UnicodeDecodeError: it cannot be read.
        yaml.YAMLError: it does not parse.
    """
    with file.open(encoding="utf-8") as stream:  # and no more of it: /dev/zero has no end
        return parse(stream.read(plain_yaml.MOST_CHARACTERS + 1), shown)


def parse(text: str, shown: str) -> Document:
    """As `read`, from a text."""
    document = Document(shown)
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is not None:
            document.data = _construct(loader, node, (), document)
    finally:
        loader.dispose()
    return document


def of_data(data: Mapping[str, Any], shown: str) -> Document:
    """As `read`, from data that are there already; they are copied."""
    document = Document(shown)
    if fault := _unusable_in(data, (), iter(range(plain_yaml.MOST_VALUES))):
        raise SpecError([fault], [shown])
    document.data = copy.deepcopy(dict(data))
    return document


def scalar(text: str) -> Any:
    """The value that a piece of YAML on the command line stands for."""
    return parse(text, "--set").data


def _unusable_in(data: Any, path: Path, left: Iterator[int]) -> Fault | None:
    """The first thing in plain data that a file could not hold either."""
    if len(path) >= plain_yaml.DEEPEST or next(left, None) is None:
        allowed = f"{plain_yaml.DEEPEST - 1} levels, {plain_yaml.MOST_VALUES:,} values"
        return Fault(path, "the mapping is nested too deeply, or holds too much", allowed)
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        pairs = data.items()
    elif isinstance(data, list | tuple):
        pairs = enumerate(data)
    elif isinstance(data, str | int) and (wrong := plain_yaml.unusable(data)):
        return Fault(path, f"{dotted(path)}: {wrong[0]}", *wrong[1:])
    for key, value in pairs:
        if isinstance(key, str) and (found := plain_yaml.control_character(key)):
            allowed = "names that can be shown"
            return Fault(path, f"the key {key!a} contains a control character, {found}", allowed)
        if fault := _unusable_in(value, (*path, key), left):
            return fault
    return None


def _construct(loader: Loader, node: yaml.Node, path: Path, document: Document) -> Any:
    document.places[path] = f"{document.name}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = _key(key_node)
            if key in seen and key != "<<":
                document.faults.append(
                    Fault((*path, key), f"key `{key}` stands here a second time", "each key once")
                )
                document.places[(*path, key)] = f"{document.name}:{key_node.start_mark.line + 1}"
            seen.add(key)
        loader.flatten_mapping(node)
        data: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            data[key] = _construct(loader, value_node, (*path, key), document)
            document.places[(*path, key)] = f"{document.name}:{key_node.start_mark.line + 1}"
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, item, (*path, i), document) for i, item in enumerate(node.value)]
    return loader.construct_object(node)


def _key(node: yaml.Node) -> str:
    """The text of a key; a list or mapping in its place is refused."""
    if not isinstance(node, yaml.ScalarNode):
        kind = "list" if isinstance(node, yaml.SequenceNode) else "mapping"
        what, allowed = f"a {kind} stands where a key is expected", "a name, then a colon"
        raise plain_yaml.Unusable(what, node.start_mark, allowed, "quotes around it")
    if found := plain_yaml.control_character(node.value):
        what = f"the key {node.value!a} contains a control character, {found}"
        raise plain_yaml.Unusable(what, node.start_mark, "names that can be shown")
    return node.value
