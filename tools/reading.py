"""Count figures of the package's style, to compare them with those of other projects.

`python -m tools.house --table` prints them. There are no limits: a reader judges them. The figures
of other projects are in `tools/house.toml`; they were counted once by the same rules.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

WIDE = 100
"""A line with more characters counts as wide."""
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_IGNORED = frozenset(
    (
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.COMMENT,
    )
)
"""Tokens that do not make a line count as code."""


@dataclass(slots=True)
class Reading:
    """The counts of some files."""

    lines: int = 0
    """All lines, including blank ones."""
    code: int = 0
    """Lines with code, without docstrings and comments."""
    characters: int = 0
    """Characters in the lines with code."""
    wide: int = 0
    """Lines with code that are wider than `WIDE`."""
    comments: int = 0
    """Lines with nothing but a comment."""
    statements: int = 0
    """Statements, without docstrings."""
    pairs: int = 0
    """Assignments of several values to several names at once, `a, b = x, y`."""
    comprehensions: int = 0
    public: int = 0
    """Functions and classes of modules whose names do not begin with an underscore."""

    def add(self, source: str) -> None:
        """Count one more file."""
        tree = ast.parse(source)
        text = source.splitlines()
        docstrings = _docstrings(tree)
        self.lines += len(text)
        self.comments += sum(line.lstrip().startswith("#") for line in text)
        for number in _code_lines(source, docstrings):
            self.code += 1
            self.characters += len(text[number - 1])
            self.wide += len(text[number - 1]) > WIDE
        self.statements -= len(docstrings)
        for node in ast.walk(tree):
            self.statements += isinstance(node, ast.stmt)
            self.comprehensions += isinstance(node, _COMPREHENSIONS)
            self.pairs += _is_pair(node)
        for node in tree.body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            self.public += named and not node.name.startswith("_")

    def figures(self) -> dict[str, float]:
        """Return the figures of the table, by their titles."""
        code = max(self.code, 1)
        lines = max(self.lines, 1)
        return {
            "statements per line of code": self.statements / code,
            "`a, b = x, y` per 1,000 lines": 1000 * self.pairs / code,
            "comprehensions per 1,000": 1000 * self.comprehensions / code,
            "comments %": 100 * self.comments / lines,
            "mean line": self.characters / code,
            f"lines over {WIDE} %": 100 * self.wide / code,
            "public names per 1,000": 1000 * self.public / lines,
        }


def read(files: Iterable[Path]) -> Reading:
    """Return the counts of all files together."""
    reading = Reading()
    for file in files:
        reading.add(file.read_text(encoding="utf-8"))
    return reading


def beside(reading: Reading, others: Mapping[str, Mapping[str, float]]) -> Table:
    """Return a table of the figures next to those of other projects.

    Args:
        reading: the counts of this project.
        others: the figures of other projects, by title and project.
    """
    projects = list(dict.fromkeys(project for figures in others.values() for project in figures))
    table = Table("", "here", *projects)
    for title, value in reading.figures().items():
        known = others.get(title, {})
        shown = [f"{known[project]:g}" if project in known else "" for project in projects]
        table.add_row(title, f"{value:.2f}", *shown)
    return table


def _docstrings(tree: ast.Module) -> list[ast.Expr]:
    """Return the strings that are statements: docstrings, and those after attributes."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                found.append(node)
    return found


def _code_lines(source: str, docstrings: Iterable[ast.Expr]) -> list[int]:
    """Return the numbers of the lines that contain more than comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _IGNORED:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring in docstrings:
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return sorted(lines)


def _is_pair(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)
