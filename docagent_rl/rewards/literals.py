"""Reading Python literals out of text without evaluating it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

MAX_CHARS = 10_000
_MAX_POWER = 64
_MAX_SHIFT = 1000
_MAX_NUMBER = 1e300

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_LOGIC = (
    ast.BoolOp, ast.Not, ast.Invert, ast.Compare, ast.IfExp, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift,
    ast.RShift,
)  # fmt: skip
_DISPLAYS: dict[type[ast.expr], Callable[[list[Any]], Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}


def safe_literal(text: str, *, logic: bool = False) -> Any:
    """Return the value of a Python expression made of literals and arithmetic between numbers.

    Stands in for the `eval()` of official scorers: strings, numbers, booleans, `None`, lists, tuples, sets
    and dictionaries, unary plus and minus, and `+ - * / // % **` between numbers. Nothing is called or looked
    up. As with `eval()`, blanks and tabs may stand before the expression, and no indented line.

    Args:
        text: the expression.
        logic: also `and`, `or`, `not`, comparisons, `if` and `else`, and `& | ^ ~ << >>` between whole
            numbers: for an `eval()` that got any text, where `3 and 4` is 4.

    Raises:
        ValueError: anything else, text of more than `MAX_CHARS` characters, or arithmetic that fails or runs
            out of bounds.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a literal of {len(text)} characters is not read")
    try:
        tree = ast.parse(text.lstrip(" \t"), mode="eval")
        if not logic and any(isinstance(node, _LOGIC) for node in ast.walk(tree)):
            raise ValueError("logic is not a literal")
        return _value(tree.body)
    # deep nesting exhausts the parser; sets refuse unhashable items; numbers overflow or divide by zero
    except (SyntaxError, RecursionError, MemoryError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a literal: {type(error).__name__}") from error


def _value(node: ast.expr | None) -> Any:
    # `None` is the key of a dictionary that is unpacked, which is no literal
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _DISPLAYS[type(node)]([_value(item) for item in items])
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_number(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _arithmetic(op, _number(left), _number(right))
    return _logical(node)


def _logical(node: ast.expr | None) -> Any:
    """Return the value of a logical expression; as in Python, parts that do not matter are not read."""
    match node:
        case ast.BoolOp(op=op, values=[*others, last]):
            for other in others:
                if bool(value := _value(other)) is isinstance(op, ast.Or):
                    return value
            return _value(last)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return operator.invert(_number(operand))  # ty: ignore[invalid-argument-type]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test) else orelse)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _compared(_value(left), ops, others)
    raise ValueError(f"{type(node).__name__} is not a literal")


def _compared(value: Any, ops: list[ast.cmpop], others: list[ast.expr]) -> bool:
    for op, node in zip(ops, others, strict=True):
        if type(op) not in _COMPARISONS:
            raise ValueError(f"{type(op).__name__} is no comparison of values")
        other = _value(node)
        if not _COMPARISONS[type(op)](value, other):
            return False
        value = other
    return True


def _number(node: ast.expr) -> int | float:
    value = _value(node)
    if not isinstance(value, int | float):
        raise ValueError(f"no arithmetic with {type(value).__name__}")
    return value


def _arithmetic(op: ast.operator, left: int | float, right: int | float) -> int | float:
    # written so that infinity fails too
    if not (abs(left) <= _MAX_NUMBER and abs(right) <= _MAX_NUMBER):
        raise ValueError("a number is too large")
    if isinstance(op, ast.Pow) and abs(right) > _MAX_POWER:
        raise ValueError("the exponent is too large")
    if isinstance(op, ast.LShift) and right > _MAX_SHIFT:
        raise ValueError("the shift is too large")
    value = _OPERATORS[type(op)](left, right)
    if not isinstance(value, int | float):
        raise ValueError("the result is no real number")
    # numbers of more digits than Python writes down; floats have their infinity
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError("the result is too large")
    return value
