"""Tables as Markdown and for the terminal, and numbers as text.

Cells may contain text from models and documents, so all of it is escaped.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from docagent_rl.base.text import shown, visible
from docagent_rl.lab.eval.report.statistics import Interval
from docagent_rl.lab.eval.scoring.roles import Author
from docagent_rl.lab.eval.scoring.scored import Unit

NOTHING = "-"
MARK = "†"
"""Marks every number for which the embedded rule judge took the place of a model."""
RULED = (
    f"{MARK} judged or extracted by the {Author.RULE.value} instead of a model: do not compare "
    "with a paper's number (docs/rule_judge.md)"
)
HEADING = "# Report of runs"
_MARKUP = re.compile(
    r"[\\`*_\[\]#!|~$]|:(?=/)|(?<=\w)@|^[-+](?=\s)|^[=]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)"
)
_WEB = re.compile(r"www\.", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text cells, with notes below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables_markdown(grids: Iterable[TextTable], notes: Sequence[str] = ()) -> str:
    """Return tables as a Markdown page, with notes below the heading."""
    lines = [HEADING, ""]
    for note in notes:
        lines += [plain_cell(note), ""]
    for grid in grids:
        lines += [f"## {plain_cell(grid.title)}", ""]
        lines += [_markdown_row(grid.head), f"| {' | '.join(['---'] * len(grid.head))} |"]
        lines += [_markdown_row(row) for row in grid.rows]
        lines.append("")
        if grid.notes:
            lines += [*(f"- {plain_cell(note)}" for note in grid.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(plain_cell, cells))} |"


def plain_cell(text: str) -> str:
    """Return a text as one line that no Markdown reader takes for markup or HTML."""
    line = " ".join(visible(text).split())
    safe = _MARKUP.sub(lambda found: f"\\{found[0]}", line.translate(_ENTITIES))
    return _WEB.sub(lambda found: f"{found[0][:-1]}&#46;", safe)


def rendered(grid: TextTable) -> RenderableType:
    """Return a table for the terminal, with its notes below it."""
    table = Table(title=shown(grid.title), title_justify="left")
    for number, name in enumerate(grid.head):
        table.add_column(shown(name), justify="left" if number == 0 else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*(shown(cell) for cell in row))
    return Group(table, *(shown(note, "dim") for note in grid.notes), Text())


def interval_text(
    interval: Interval | None, unit: Unit, *, ruled: bool = False, sign: bool = False
) -> str:
    """Return a number with its interval as text."""
    if interval is None or interval.value is None:
        return NOTHING
    text = digits(interval.value, unit, sign) + (MARK if ruled else "")
    if interval.low is None or interval.high is None:
        return text
    return f"{text} [{digits(interval.low, unit, sign)}, {digits(interval.high, unit, sign)}]"


def digits(value: float | None, unit: Unit, sign: bool = False) -> str:
    """Return a number in the format of its unit."""
    if value is None:
        return NOTHING
    plus = "+" if sign else ""
    match unit:
        case Unit.PERCENT:
            return f"{100 * value:{plus}.1f}"
        case Unit.SECONDS:
            return f"{value:{plus},.1f}"
        case Unit.NUMBER:
            # with thousands, the decimals say nothing
            return f"{value:{plus},.0f}" if abs(value) >= 1000 else f"{value:{plus},.2f}"


def p_text(value: float | None) -> str:
    """Return a p-value as text, never as 0."""
    if value is None:
        return NOTHING
    return f"{value:.4f}" if value >= 0.001 else "< 0.001"
