"""Texts of the code as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"^    (\*{0,2}[\w.]+(?: \([^)]*\))?): (.*)$")


def cell(text: object) -> str:
    """Return a text in one line, as a cell of a table."""
    line = " ".join(str(text).split())
    # outside of code, `<` would begin HTML
    parts = re.split(r"(`[^`]*`)", line.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "\\<") for part in parts)


def table(*rows: Sequence[object]) -> Iterator[str]:
    """Yield the lines of a table; its first row is the heading."""
    for number, row in enumerate(rows):
        yield f"| {' | '.join(map(cell, row))} |"
        if number == 0:
            yield "|" + "---|" * len(row)


def paragraphs(docstring: str) -> str:
    """Return a docstring with its sections (`Args:`, `Raises:`) as lists."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        if _SECTION.match(line):
            inside = True
            lines += ["", f"*{line[:-1]}:*", ""]
        elif inside and (entry := _ENTRY.match(line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif inside and line.startswith("        "):
            lines[-1] += f" {line.strip()}"
        else:
            inside = inside and not line.strip()
            lines.append(line.strip() if inside else line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
