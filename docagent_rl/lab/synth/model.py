"""The content of a synthetic document before it is laid out."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from docagent_rl.lab.synth.lexicon import Quantity

TableKind = Literal["yearly", "hubs", "quarterly"]
"""The rows and columns of a table: units by year (one measure), hubs by measure, or quarters of one
unit by measure.
"""


@dataclass(frozen=True)
class Fact:
    """A value that one sentence states and one question asks for."""

    value: str
    statement: str
    """One or more sentences."""
    questions: tuple[str, ...]
    """Wordings of the question."""


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    key: str
    text: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table with one header row; the first column names the rows."""

    key: str
    kind: TableKind
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    measures: tuple[Quantity, ...]
    """The measure of each column of values."""
    unit: str = ""
    """Name of the unit to which a quarterly table belongs."""

    def column(self, index: int) -> list[str]:
        """Return the cells of column `index` (0 is the row names) from top to bottom."""
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Chart:
    """A bar chart of a few labelled values."""

    key: str
    caption: str
    labels: tuple[str, ...]
    values: tuple[str, ...]
    measure: Quantity
    unit: str
    values_in_caption: bool
    """False: the values are only in the picture."""


Block = Prose | Table | Chart


@dataclass(frozen=True)
class ReportSection:
    """A heading with everything up to the next heading."""

    key: str
    title: str
    """Unique in the document."""
    level: int
    """0 for a chapter, 1 for a section within it."""
    blocks: tuple[Block, ...]


class Entity(NamedTuple):
    """One of several near-identical entities: its name, and the hub on which it depends."""

    name: str
    hub: str
