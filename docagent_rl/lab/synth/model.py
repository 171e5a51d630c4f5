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
    """The sentence, or several."""
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
    """One for each column of values."""
    unit: str = ""
    """Name of the unit a quarterly table belongs to."""

    def column(self, index: int) -> list[str]:
        """Return the cells of column `index` (0 holds the row names) from top to bottom."""
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Chart:
    """A picture of a few labelled values as bars."""

    key: str
    caption: str
    labels: tuple[str, ...]
    values: tuple[str, ...]
    measure: Quantity
    unit: str
    values_in_caption: bool
    """False: the values are in the picture alone."""


Block = Prose | Table | Chart


@dataclass(frozen=True)
class ReportSection:
    """A heading and what follows it up to the next heading."""

    key: str
    title: str
    """Unique in the document."""
    level: int
    """0 for a chapter, 1 below it."""
    blocks: tuple[Block, ...]


class Entity(NamedTuple):
    """One of several near-identical entities: its name and the hub it depends on."""

    name: str
    hub: str
