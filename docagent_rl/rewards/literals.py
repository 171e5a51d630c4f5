"""Reading Python literals out of text without evaluating it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

MAX_CHARS = 10_000
_MAX_POWER = 64
_MAX_NUMBER = 1e300

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_DISPLAYS: dict[type[ast.expr], Callable[[list[Any]], Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}


def safe_literal(text: str) -> Any:
    """The value of a Python expression made of literals and arithmetic between numbers.

    Stands in for the `eval()` of official scorers: strings, numbers, booleans, `None`, lists, tuples, sets
    and dictionaries, unary plus and minus, and `+ - * / // % **` between numbers. Nothing is called or looked
    up. As with `eval()`, blanks and tabs may stand before the expression, and no indented line.

    Raises:
        ValueError: anything else, text of more than `MAX_CHARS` characters, or arithmetic that fails or runs
            out of bounds.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a literal of {len(text)} characters is not read")
    try:
        return _value(ast.parse(text.lstrip(" \t"), mode="eval").body)
    # deep nesting exhausts the parser; sets refuse unhashable items; numbers overflow or divide by zero
    except (SyntaxError, RecursionError, MemoryError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a literal: {type(error).__name__}") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _DISPLAYS[type(node)]([_value(item) for item in items])
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return +_number(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _arithmetic(op, _number(left), _number(right))
    raise ValueError(f"{type(node).__name__} is not a literal")


def _key(node: ast.expr | None) -> Any:
    if node is None:
        raise ValueError("a dictionary that unpacks another is not a literal")
    return _value(node)


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
    value = _OPERATORS[type(op)](left, right)
    if not isinstance(value, int | float):
        raise ValueError("the result is no real number")
    # numbers of more digits than Python writes down; floats have their infinity
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError("the result is too large")
    return value
