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
_FORMS = (
    ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
LONGEST = 400  # characters, of one constraint: nested no deeper than Python can follow
ALLOWED = "settings, numbers, texts, + - * / // %, < <= > >= == !=, and, or, not"


def names_in(expression: str) -> set[str]:
    """The settings that a constraint reads.

    Raises:
        ValueError: it is no expression, or uses anything but `ALLOWED`.
    """
    tree = _parse(expression)
    for node in ast.walk(tree):
        if not isinstance(node, _FORMS) or _is_foreign(node):
            raise ValueError(f"`{_short(ast.unparse(node))}` is not allowed in a constraint")
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
    except (TypeError, ArithmeticError) as error:
        raise ValueError(f"`{_short(expression)}` cannot be computed: {error}") from None


def _parse(expression: str) -> ast.expr:
    if len(expression) > LONGEST:
        what = f"`{_short(expression)}` cannot be read: it has more than {LONGEST} characters"
        raise ValueError(f"{what}; write it as several constraints")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"`{_short(expression)}` is not an expression") from None


def _evaluate(node: ast.expr, settings: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return settings[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            pair = _evaluate(left, settings), _evaluate(right, settings)
            for operand in pair:
                if isinstance(operand, str):  # 'a' * 10**9 would fill the memory
                    raise TypeError(
                        f"{_short(repr(operand))} is a text, which can be compared only"
                    )
            return _BINARY[type(op)](*pair)
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


def _is_foreign(node: ast.AST) -> bool:
    """Whether an operator or a constant is none of `ALLOWED`, though its kind of node is."""
    match node:
        case ast.Constant(value=value):
            return not isinstance(value, bool | int | float | str)
        case ast.BinOp(op=op):
            return type(op) not in _BINARY
        case ast.UnaryOp(op=op):
            return not isinstance(op, ast.USub | ast.Not)
        case ast.Compare(ops=ops):
            return any(type(op) not in _COMPARE for op in ops)
    return False


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
