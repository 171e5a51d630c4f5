"""Tables as Markdown and in the terminal. Texts in them are other people's: none of them is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from docagent_rl.base.terminal import shown, visible

NOTHING = "-"
HEADING = "# Report of runs"
LONGEST = 1000
"""Characters of a text; longer ones are cut."""
LONGEST_NOTE = 20_000
"""Characters of a line under a table, which names all that separates a run from a paper's."""
_MARKS = re.compile(
    r"[\\`*_\[\]#!|~$]|:(?=/)|(?<=\w)@|^[-+](?=\s)|^[=]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)"
)
_WEB = re.compile(r"www\.", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Args:
        title: of it.
        head: of its columns.
        rows: as many texts each.
        notes: lines under it.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def markdown(grids: Iterable[Grid], picture: str | None, notes: Sequence[str] = ()) -> str:
    """Return the page.

    Args:
        grids: in order.
        picture: file name of the figure beside it.
        notes: under the heading.
    """
    parts = [HEADING, "", *(line for note in notes for line in (plain(note), ""))]
    if picture is not None:
        parts += [f"![Numbers of the runs with their intervals, beside the papers']({picture})", ""]
    for grid in grids:
        cells = [map(plain, grid.head), ["---"] * len(grid.head), *(map(plain, row) for row in grid.rows)]
        parts += [f"## {plain(grid.title)}", "", *(f"| {' | '.join(each)} |" for each in cells), ""]
        parts += [f"- {plain(note, LONGEST_NOTE)}" for note in grid.notes] + ([""] if grid.notes else [])
    return "\n".join(parts).rstrip() + "\n"


def plain(text: str, longest: int = LONGEST) -> str:
    """Return a text on one line that no reader of Markdown takes for markup or HTML; long ones are cut."""
    line = " ".join(visible(text).split())
    line = line if len(line) <= longest else f"{line[: longest - 3]}..."
    safe = _MARKS.sub(lambda found: f"\\{found[0]}", line.translate(_ENTITIES))
    return _WEB.sub(lambda found: f"{found[0][:-1]}&#46;", safe)


def rendered(grid: Grid) -> RenderableType:
    """Return a table with its notes under it for the terminal."""
    table = Table(title=shown(grid.title), title_justify="left")
    for number, name in enumerate(grid.head):
        table.add_column(shown(name), justify="left" if number == 0 else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*(shown(cell) for cell in row))
    return Group(table, *(shown(note, "dim") for note in grid.notes), Text())
