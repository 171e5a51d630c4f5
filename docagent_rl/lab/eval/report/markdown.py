"""Tables of a report as Markdown. Names and answers in them are other people's: none of them is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from docagent_rl.base.terminal import visible
from docagent_rl.lab.eval.report.grids import Grid

HEADING = "# Report of runs"
LONGEST = 1000
"""Characters of a text; longer ones are cut."""
LONGEST_NOTE = 20_000
"""The same of a line under a table: what parts a run from a paper's is told in one, and to its end."""
_MARKS = re.compile(
    r"[\\`*_\[\]#!|~$]|:(?=/)|(?<=\w)@|^[-+](?=\s)|^[=]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)"
)
_WEB = re.compile(r"www\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def markdown(grids: Iterable[Grid], picture: str | None, notes: Sequence[str] = ()) -> str:
    """The page.

    Args:
        grids: in order.
        picture: file name of the figure beside it.
        notes: under the heading.
    """
    parts = [HEADING, "", *(line for note in notes for line in (plain(note), ""))]
    if picture is not None:
        parts += [f"![Numbers of the runs with their intervals, beside the papers']({picture})", ""]
    for grid in grids:
        parts += [f"## {plain(grid.title)}", "", _line(grid.head), _line(["---"] * len(grid.head), raw=True)]
        parts += [_line(row) for row in grid.rows]
        parts += [""]
        parts += [f"- {plain(note, LONGEST_NOTE)}" for note in grid.notes] + ([""] if grid.notes else [])
    return "\n".join(parts).rstrip() + "\n"


def plain(text: str, longest: int = LONGEST) -> str:
    """A text on one line that no reader of Markdown takes for markup or HTML; cut where it is longer."""
    line = " ".join(visible(text).split())
    line = line if len(line) <= longest else f"{line[: longest - 3]}..."
    safe = "".join(_ENTITIES.get(letter, letter) for letter in line)
    return _WEB.sub(lambda found: f"{found[0][:-1]}&#46;", _MARKS.sub(lambda found: f"\\{found[0]}", safe))


def _line(cells: Iterable[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(cell if raw else plain(cell) for cell in cells) + " |"
