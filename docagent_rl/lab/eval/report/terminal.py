"""Tables of a report in the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from docagent_rl.base.terminal import shown
from docagent_rl.lab.eval.report.grids import Grid


def rendered(grid: Grid) -> RenderableType:
    """A table with its notes under it; nothing in it is taken for markup."""
    table = Table(title=shown(grid.title), title_justify="left")
    for number, name in enumerate(grid.head):
        table.add_column(shown(name), justify="left" if number == 0 else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*(shown(cell) for cell in row))
    return Group(table, *(shown(note, "dim") for note in grid.notes), Text())
