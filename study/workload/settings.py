"""Settings of a workload: their types as pydantic reads them, and what is wrong with a value."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from study.errors import listing, nearest


def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Pydantic's checks for a type, bounds of `Annotated[..., Field(...)]` included.

    Raises:
        PydanticSchemaGenerationError: pydantic cannot check this type.
    """
    try:
        return _cached_adapter(hint)
    except TypeError:  # a type that cannot be hashed
        return _adapter(hint)


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))
    except PydanticSchemaGenerationError:
        raise
    except Exception:  # types with a configuration of their own do not take another one
        return TypeAdapter(hint)


_cached_adapter = functools.lru_cache(maxsize=None)(_adapter)


def read(hint: Any, value: Any) -> Any:
    """`value` as the type wants it: whole numbers stand for floats, texts never for numbers.

    Raises:
        ValidationError: it does not fit.
    """
    adapter = adapter_of(hint)
    if not isinstance(value, str | bool):
        return adapter.validate_python(value)
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError:
        found = adapter.validate_python(value)
        if isinstance(found, int | float):
            raise
        return found  # a path, a date: written as texts in YAML


def plain(hint: Any, value: Any) -> Any:
    """`value` of a setting as JSON data."""
    return adapter_of(hint).dump_python(value, mode="json", warnings=False)


def wrong(name: str, hint: Any, value: Any) -> tuple[str, str] | None:
    """What is allowed and what to try, where `value` does not fit the type; else None."""
    try:
        read(hint, value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        rules = list(dict.fromkeys(allowed(e["type"], e.get("ctx", {}), e["msg"]) for e in errors))
        close = None
        if isinstance(value, str):
            close = nearest(value, [n for rule in rules for n in rule.split(", ")])
        return " or ".join(rules), f"{name}: {close}" if close else ""
    return None


def allowed(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What pydantic would have accepted, in few words."""
    words = {
        "greater_than": "a number above {gt}",
        "greater_than_equal": "a number of at least {ge}",
        "less_than": "a number below {lt}",
        "less_than_equal": "a number of at most {le}",
        "int_type": "a whole number",
        "int_parsing": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "float_parsing": "a number",
        "finite_number": "a finite number",
        "string_type": "a text",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "dict_type": "a mapping of keys to values",
        "model_type": "a mapping of keys to values",
        "list_type": "a list",
        "too_short": "at least {min_length}",
        "too_long": "at most {max_length}",
        "none_required": "nothing",
        "multiple_of": "a multiple of {multiple_of}",
    }
    if kind == "literal_error":
        return listing(context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
    return words[kind].format(**context) if kind in words else message


def integral(hint: Any) -> bool:
    """Whether a setting of this type is a whole number: a range is drawn in whole numbers.

    Example:
        >>> integral(int), integral(int | None), integral(float), integral(bool)
        (True, True, False, False)
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        kinds = {_base(part) for part in get_args(hint)}
        return int in kinds and float not in kinds
    return hint is int


def _base(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def hint_of(default: Any) -> Any:
    """The type of a parameter without annotation, as its default suggests."""
    if default is None:
        return Any
    if isinstance(default, bool):
        return bool
    if isinstance(default, int | float):
        return type(default)
    return str if isinstance(default, str) else Any


def choices_of(hint: Any) -> tuple[Any, ...]:
    """The values of a Literal; else nothing."""
    return get_args(hint) if get_origin(hint) is Literal else ()
