"""Reading Python literals out of text without evaluating it."""

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

    Stands in for the `eval()` of official scorers: strings, numbers, booleans, `None`, lists,
    tuples, sets and dictionaries, unary plus and minus, and `+ - * / // % **` between numbers.
    Nothing is called or looked up. As with `eval()`, blanks and tabs may stand before the
    expression, and no indented line.

    Args:
        text: the expression.
        logic: also `and`, `or`, and `& | ^ ~` between whole numbers: for an `eval()` that got any
            text, where `3 and 4` is 4.

    Raises:
        ValueError: anything else, text of more than `MAX_CHARS` characters, or arithmetic that
            fails or runs out of bounds.
    """
    if len(text) > MAX_CHARS:
        raise ValueError(f"a literal of {len(text)} characters is not read")
    try:
        tree = ast.parse(text.lstrip(" \t"), mode="eval")
        if not logic and any(isinstance(node, _LOGIC) for node in ast.walk(tree)):
            raise ValueError("logic is not a literal")
        return _value(tree.body)
    # deep nesting exhausts the parser; sets refuse unhashable items; numbers overflow or divide by
    # zero
    except (SyntaxError, RecursionError, MemoryError, TypeError, ArithmeticError) as error:
        raise ValueError(f"not a literal: {type(error).__name__}") from error


def _value(node: ast.expr | None) -> Any:
    """Return the value of an expression; as in Python, parts that do not matter are not read."""
    # `None` is the key of a dictionary that is unpacked, which is no literal
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
    # written so that infinity fails too
    if len(numbers) > 1 and not all(abs(number) <= _MAX_NUMBER for number in numbers):
        raise ValueError("a number is too large")
    if isinstance(op, ast.Pow) and abs(numbers[-1]) > _GREATEST_POWER:
        raise ValueError("the exponent is too large")
    value = compute(*numbers)
    if not isinstance(value, int | float):
        raise ValueError("the result is no real number")
    # numbers of more digits than Python writes down; floats have their infinity
    if len(numbers) > 1 and isinstance(value, int) and abs(value) > _MAX_NUMBER:
        raise ValueError("the result is too large")
    return value
