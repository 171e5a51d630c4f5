"""The settings of a synthetic corpus."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError

GENERATOR_VERSION = 4
"""Increased whenever the same settings would give different bytes."""


class DocumentDifficulty(StrEnum):
    """The length of a document, and the amount of text that resembles the evidence but is not.

    Hard documents also quote the figures of earlier years. In all others, chart captions repeat the
    charts' values.
    """

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class QuestionKind(StrEnum):
    """The evidence that a question needs."""

    TEXT_FACT = "text_fact"
    """One sentence in a paragraph."""
    TABLE_CELL = "table_cell"
    """One row of a table."""
    CHART_VALUE = "chart_value"
    """One bar of a chart."""
    PAGE_INDEX = "page_index"
    """The layout: where a section begins, or which heading is on a page."""
    TWO_HOP = "two_hop"
    """A sentence names an entity whose value is in a table on another page."""
    UNANSWERABLE = "unanswerable"
    """Nothing: the question is about an entity that occurs nowhere in the corpus."""


@dataclass(frozen=True)
class DifficultyProfile:
    """Properties of the documents of one difficulty: minimum and maximum of each, and the mix of
    questions.
    """

    pages: tuple[int, int]
    units: tuple[int, int]
    """Number of units (divisions, plants, ...) in a document; they have near-identical facts."""
    hubs: int
    mix: tuple[float, ...]
    """Relative frequencies of the question kinds, in the order of `QuestionKind`."""


PROFILES: Mapping[DocumentDifficulty, DifficultyProfile] = {
    DocumentDifficulty.EASY: DifficultyProfile((3, 5), (3, 4), 3, (6, 4, 2, 2, 1, 1)),
    DocumentDifficulty.MEDIUM: DifficultyProfile((8, 14), (5, 9), 5, (4, 4, 3, 2, 3, 1)),
    DocumentDifficulty.HARD: DifficultyProfile((20, 40), (14, 20), 7, (3, 3, 3, 2, 4, 2)),
}


@dataclass(frozen=True)
class SynthSettings:
    """Everything that determines the bytes of a corpus.

    Raises:
        UserError: a value is out of range.
    """

    documents: int = 24
    seed: int = 0
    questions_per_document: int = 6
    """Most questions per document; a short one may not offer so many different questions."""
    difficulties: tuple[DocumentDifficulty, ...] = tuple(DocumentDifficulty)
    """Document `i` has difficulty `i` modulo the length of this tuple."""

    def __post_init__(self) -> None:
        for name in ("documents", "questions_per_document"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, found {getattr(self, name)}")

    def difficulty(self, index: int) -> DocumentDifficulty:
        """Return the difficulty of document `index` (from 0)."""
        return self.difficulties[index % len(self.difficulties)]

    def described(self) -> dict[str, Any]:
        """Return the settings and the version of the generator as JSON types."""
        return json.loads(json.dumps({"version": GENERATOR_VERSION, **asdict(self)}))
