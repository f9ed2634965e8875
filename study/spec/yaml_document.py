"""A YAML document with the line of every key and item."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import yaml

from study.errors import Fault, Path

_DEEPEST = 20
_ONE_KEY: Path = ("trial", "budget")  # a profile's views replace the file's seconds


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, reading `1e-3` as the number that YAML 1.2 says it is."""


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
    return parse(file.read_text(encoding="utf-8"), shown)


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
    document.data = copy.deepcopy(dict(data))
    return document


def scalar(text: str) -> Any:
    """The value that a piece of YAML on the command line stands for."""
    return yaml.load(text, Loader=Loader)


def _construct(loader: Loader, node: yaml.Node, path: Path, document: Document) -> Any:
    document.places[path] = f"{document.name}:{node.start_mark.line + 1}"
    if len(path) > _DEEPEST:  # an alias inside its own anchor would never end
        raise yaml.MarkedYAMLError(None, None, "nested too deeply", node.start_mark)
    if isinstance(node, yaml.MappingNode):
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = key_node.value
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
