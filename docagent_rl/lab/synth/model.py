"""The content of a synthetic document before it is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.synth.settings import Difficulty


class PageFormat(StrEnum):
    """Size and orientation of the pages of a document."""

    A4 = "a4"
    LETTER = "letter"
    LANDSCAPE = "landscape"
    """A4 on its side."""
    SLIDE = "slide"
    """16:9."""


class ChartKind(StrEnum):
    """How a chart draws its values."""

    BAR = "bar"
    LINE = "line"
    PIE = "pie"


class TableKind(StrEnum):
    """What the rows and columns of a table stand for."""

    YEARLY = "yearly"
    """Units by year, one measure."""
    HUBS = "hubs"
    """Hubs by measure."""
    QUARTERLY = "quarterly"
    """Quarters by measure, one unit."""


@dataclass(frozen=True)
class Measure:
    """A quantity that tables and charts report."""

    noun: str
    """Reads well in "the <noun> of ..."."""
    unit: str
    """Unit of measurement; empty for plain counts."""
    low: float
    high: float
    decimals: int

    @property
    def in_unit(self) -> str:
        """`", in <unit>"`, or nothing for plain counts."""
        return f", in {self.unit}" if self.unit else ""

    @property
    def heading(self) -> str:
        """The noun as a column heading or caption, with the unit in brackets."""
        name = self.noun.removeprefix("number of ")
        name = name[0].upper() + name[1:]
        return f"{name} ({self.unit})" if self.unit else name


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
    """One for a yearly table, else one per value column."""
    unit: str = ""
    """Name of the unit a quarterly table belongs to."""

    def column(self, index: int) -> list[str]:
        """The cells of column `index` (0 holds the row names) from top to bottom."""
        return [row[index] for row in self.rows]


@dataclass(frozen=True)
class Chart:
    """A picture of a few labelled values."""

    key: str
    kind: ChartKind
    caption: str
    labels: tuple[str, ...]
    values: tuple[str, ...]
    measure: Measure
    unit: str
    values_in_caption: bool
    """False: the values are in the picture alone."""

    @property
    def full_caption(self) -> str:
        """The caption as printed."""
        if not self.values_in_caption:
            return self.caption
        data = "; ".join(f"{label} {value}" for label, value in zip(self.labels, self.values, strict=True))
        return f"{self.caption} Data: {data}."


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


@dataclass(frozen=True)
class Unit:
    """One of several near-identical entities: its name and the hub it depends on."""

    name: str
    hub: str


@dataclass(frozen=True)
class DocumentPlan:
    """A document that is still free to lose its last chapters, so that it gets the length it should have."""

    index: int
    doc_id: str
    company: str
    report: str
    """E.g. "Annual Report 2021"."""
    year: int
    theme: str
    difficulty: Difficulty
    page_format: PageFormat
    pages: tuple[int, int]
    """Fewest pages, and the number of pages aimed at."""
    units: tuple[Unit, ...]
    absent: tuple[str, ...]
    """Names that occur in no document."""
    front: tuple[Section, ...]
    chapters: tuple[tuple[Section, ...], ...]
    """One chapter (heading and subsections) for each unit, as many as fit."""
    back: tuple[Section, ...]

    def sections(self, chapters: int, back: int) -> tuple[Section, ...]:
        """The sections in order, with the first `chapters` chapters and the first `back` closing sections."""
        middle = [section for chapter in self.chapters[:chapters] for section in chapter]
        return (*self.front, *middle, *self.back[:back])
