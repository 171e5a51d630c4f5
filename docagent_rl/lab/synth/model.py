"""The content of a synthetic document before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from docagent_rl.lab.synth.lexicon import Measure


class PageFormat(StrEnum):
    """Size and orientation of the pages of a document."""

    A4 = "a4"
    LETTER = "letter"
    LANDSCAPE = "landscape"
    """A4 on its side."""
    SLIDE = "slide"
    """16:9."""


class ChartKind(StrEnum):
    """The form of a chart."""

    BAR = "bar"
    LINE = "line"


class TableKind(StrEnum):
    """The meaning of the rows and columns of a table."""

    YEARLY = "yearly"
    """Units by year, one measure."""
    HUBS = "hubs"
    """Hubs by measure."""
    QUARTERLY = "quarterly"
    """Quarters by measure, one unit."""


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
    measures: tuple[Measure, ...]
    """One for each column of values."""
    unit: str = ""
    """Name of the unit a quarterly table belongs to."""

    def column(self, index: int) -> list[str]:
        """Return the cells of column `index` (0 holds the row names) from top to bottom."""
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Chart:
    """A picture of a few labelled values."""

    key: str
    kind: ChartKind
    title: str
    labels: tuple[str, ...]
    values: tuple[str, ...]
    measure: Measure
    unit: str
    values_in_caption: bool
    """False: the values are in the picture alone."""

    @property
    def caption(self) -> str:
        """The caption as printed."""
        if not self.values_in_caption:
            return self.title
        data = "; ".join(f"{label} {value}" for label, value in zip(self.labels, self.values, strict=True))
        return f"{self.title} Data: {data}."


Block = Prose | Table | Chart


@dataclass(frozen=True)
class Section:
    """A heading and what follows it up to the next heading."""

    key: str
    title: str
    """Unique in the document."""
    level: int
    """0 for a chapter, 1 below it."""
    blocks: tuple[Block, ...]


class Unit(NamedTuple):
    """One of several near-identical entities: its name and the hub it depends on."""

    name: str
    hub: str
