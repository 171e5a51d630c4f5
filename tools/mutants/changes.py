"""Make the mutants of a module, each with one change of an operator, a number or a statement."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "mean": "sum",
    "amax": "amin",
    "amin": "amax",
}
"""Functions and methods, each with one that replaces it."""

UNSEEN = (
    "device",
    "encoding",
    "memory_format",
    "show_progress_bar",
    "stacklevel",
    "strict",
    "verbose",
)
"""Arguments that are not mutated: tests have only one device and one encoding, zipped sequences
have the same length, and the others only change output or speed.
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change.

    Args:
        name: `function: before -> after`, with `#2` for the second of that name.
        line: the line of the change.
        lines: the lines of the statement, or of the function whose default changes; a test that
            runs none of them cannot detect the change.
        source: the source of the changed module.
    """

    name: str
    line: int
    lines: range
    source: str


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module, in line order.

    Docstrings, texts, messages of errors and logs, annotations, decorators and imports for types
    are not changed.
    """
    found = []
    seen = Counter[str]()
    for place in count():
        tree = ast.parse(source)
        change = next((each for n, each in enumerate(_changes(tree)) if n == place), None)
        if change is None:
            break
        name = f"{change.where}: {change.apply()}"
        seen[name] += 1
        if seen[name] > 1:
            name += f" #{seen[name]}"
        found.append(
            Mutant(name, change.line, change.lines, ast.unparse(ast.fix_missing_locations(tree)))
        )
    return sorted(found, key=lambda mutant: mutant.line)


@dataclass(frozen=True, slots=True)
class Change:
    """One change that can be made to a tree."""

    where: str
    line: int
    lines: range
    parent: ast.AST
    field: str
    index: int | None
    after: ast.AST

    def apply(self) -> str:
        """Make the change; return `before -> after`."""
        before = getattr(self.parent, self.field)
        if self.index is None:
            setattr(self.parent, self.field, self.after)
        else:
            siblings = before
            before = siblings[self.index]
            siblings[self.index] = self.after
        return f"{_shown(before)} -> {_shown(self.after)}"


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:80]


def _changes(tree: ast.Module) -> Iterator[Change]:
    yield from _inside(tree, "module", range(0))


def _inside(node: ast.AST, where: str, lines: range) -> Iterator[Change]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        many = isinstance(value, list)
        for index, child in enumerate(value if many else [value]):
            if not isinstance(child, ast.AST) or _is_kept(child):
                continue
            line = getattr(child, "lineno", 0)
            its_lines = _lines(child, lines)
            for after in _replacements(child):
                yield Change(where, line, its_lines, node, field, index if many else None, after)
            if not isinstance(child, ast.Raise):  # a message is not behaviour
                yield from _inside(child, _named(child, where), its_lines)


def _is_kept(node: ast.AST) -> bool:
    match node:
        case (
            ast.JoinedStr()
            | ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))))
        ):
            return True
        case ast.keyword(arg=name):
            return name in UNSEEN
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _lines(node: ast.AST, around: range) -> range:
    match node:
        case ast.FunctionDef(body=[first, *_], end_lineno=int(end)):
            return range(first.lineno, end + 1)
        case ast.match_case(pattern=pattern, body=[first, *_]):
            return range(pattern.lineno, max(first.lineno, pattern.lineno + 1))
        case ast.stmt(lineno=start, body=[first, *_]):
            return range(start, max(first.lineno, start + 1))
        case ast.stmt(lineno=start, end_lineno=int(end)):
            return range(start, end + 1)
    return around


def _named(node: ast.AST, where: str) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name if where == "module" else f"{where}.{node.name}"
    return where


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    yield from _other_values(node)
    yield from _other_statements(node)
    if isinstance(node, ast.Call):
        for n, keyword in enumerate(node.keywords):
            if keyword.arg is not None and keyword.arg not in UNSEEN:
                yield _with(node, keywords=node.keywords[:n] + node.keywords[n + 1 :])


def _other_values(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) if type(op) in OPERATORS and not _is_type(node):
            yield _with(node, op=OPERATORS[type(op)]())
        case ast.BoolOp(op=ast.And()):
            yield _with(node, op=ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _with(node, op=ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(value * 2 if value else 1.0)
        case ast.Call(func=ast.Name(id="reversed"), args=[forwards]):
            yield forwards
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield _with(node, func=ast.Name(NAMES[name], ast.Load()))
        case ast.Attribute(attr=name) if name in NAMES:
            yield _with(node, attr=NAMES[name])


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield _with(node, op=OPERATORS[type(op)]())
        case ast.Raise() | ast.Assert():
            yield ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(
            test, ast.Compare | ast.UnaryOp
        ):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)


def _is_type(node: ast.BinOp) -> bool:
    """Return whether an expression is a union of types such as `int | None`."""
    sides = (node.left, node.right)
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(s, ast.Constant) and s.value is None for s in sides
    )
