"""Parsing of Python literals without evaluating code."""

import ast
import operator
from collections.abc import Callable
from typing import Any

MAX_CHARS = 10_000
_MAX_NUMBER = 1e300
_GREATEST_POWER = 64

_ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}  # fmt: skip
_BITS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Invert: operator.invert,
}  # fmt: skip
_LOGIC = (ast.BoolOp, *_BITS)
_DISPLAYS: dict[type[ast.AST], Callable[[list[Any]], Any]] = {
    ast.List: list,
    ast.Tuple: tuple,
    ast.Set: set,
}


def safe_literal(text: str, *, logic: bool = False) -> Any:
    """Return the value of a Python expression made of literals and arithmetic between numbers.

    This replaces the `eval()` of official scorers. It supports strings, numbers, booleans, `None`,
    lists, tuples, sets and dictionaries, unary plus and minus, and `+ - * / // % **` between
    numbers. No function is called and no name is looked up. As with `eval()`, spaces and tabs may
    precede the expression, but an indented later line is an error.

    Args:
        text: the expression.
        logic: also support `and`, `or`, and `& | ^ ~` between integers. This reproduces an `eval()`
            that was applied to arbitrary text, where `3 and 4` is 4.

    Raises:
        ValueError: the text is anything else, is longer than `MAX_CHARS` characters, or its
            arithmetic fails or exceeds the bounds.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a literal of {len(text)} characters is too long")
    try:
        tree = ast.parse(text.lstrip(" \t"), mode="eval")
        if not logic and any(isinstance(node, _LOGIC) for node in ast.walk(tree)):
            raise ValueError("logic is not a literal")
        return _value(tree.body)
    # deep nesting exhausts the parser, sets reject unhashable items, and numbers overflow or are
    # divided by zero
    except (SyntaxError, RecursionError, MemoryError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a literal: {type(error).__name__}") from error


def _value(node: ast.expr | None) -> Any:
    """Return the value of an expression; as in Python, `and` and `or` short-circuit."""
    # the key is `None` for an unpacked dictionary (`**x`), which is not a literal
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return _DISPLAYS[type(node)]([_value(item) for item in items])
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=op, operand=operand):
            return _computed(op, _value(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, _value(left), _value(right))
        case ast.BoolOp(op=op, values=[*others, last]):
            for other in others:
                if bool(value := _value(other)) is isinstance(op, ast.Or):
                    return value
            return _value(last)
    raise ValueError(f"{type(node).__name__} is not a literal")


def _computed(op: ast.AST, *numbers: Any) -> int | float:
    """Apply an operator to one or two numbers, within bounds."""
    compute = _ARITHMETIC.get(type(op)) or _BITS.get(type(op))
    if compute is None or not all(isinstance(number, int | float) for number in numbers):
        raise ValueError(
            f"no {type(op).__name__} of {', '.join(type(each).__name__ for each in numbers)}"
        )
    # written as `not all(... <= ...)` so that NaN and infinity fail too
    if len(numbers) > 1 and not all(abs(number) <= _MAX_NUMBER for number in numbers):
        raise ValueError("a number is too large")
    if isinstance(op, ast.Pow) and abs(numbers[-1]) > _GREATEST_POWER:
        raise ValueError("the exponent is too large")
    value = compute(*numbers)
    if not isinstance(value, int | float):
        raise ValueError("the result is not a real number")
    # Python refuses to print integers of too many digits; floats become infinite instead
    if len(numbers) > 1 and isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError("the result is too large")
    return value
