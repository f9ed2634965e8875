"""Constraints on configurations: arithmetic and comparisons over settings, never `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
ALLOWED = "settings, numbers, texts, + - * / // %, < <= > >= == !=, and, or, not"


def names_in(expression: str) -> set[str]:
    """The settings that a constraint reads.

    Raises:
        ValueError: it is no expression, or uses anything but `ALLOWED`.
    """
    tree = _parse(expression)
    _evaluate(tree, _Anything())
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def satisfied(expression: str, settings: Mapping[str, Any]) -> bool:
    """Whether the settings satisfy the constraint.

    Raises:
        ValueError: as `names_in`, or a division by zero, or a comparison of unlike things.
        KeyError: a setting is missing.

    Example:
        >>> satisfied("batch_size * num_positives <= 256", {"batch_size": 64, "num_positives": 4})
        True
    """
    try:
        return bool(_evaluate(_parse(expression), settings))
    except (TypeError, ZeroDivisionError) as error:
        raise ValueError(f"`{expression}` cannot be computed: {error}") from None


def _parse(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"`{expression}` is not an expression") from None


def _evaluate(node: ast.expr, settings: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return settings[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluate(left, settings), _evaluate(right, settings))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, settings)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, settings)
        case ast.BoolOp(op=op, values=values):
            # All parts are looked at, so that a mistake in any of them shows at once.
            found = [bool(_evaluate(value, settings)) for value in values]
            return all(found) if isinstance(op, ast.And) else any(found)
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(
            type(o) in _COMPARE for o in ops
        ):
            values = [_evaluate(part, settings) for part in (left, *rest)]
            pairs = zip(ops, values, values[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
    raise ValueError(f"`{ast.unparse(node)}` is not allowed in a constraint")


class _Anything(dict):
    """Stands for any settings while only the form of an expression is checked."""

    def __missing__(self, name: str) -> float:
        return 1.0
