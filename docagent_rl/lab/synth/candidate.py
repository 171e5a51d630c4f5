"""A question that could be asked about a document, and helpers shared by all who propose some."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from docagent_rl.lab.synth.flowables import Spot
from docagent_rl.lab.synth.layout import Rendered
from docagent_rl.lab.synth.lexicon import THEME_BY_KEY, Theme
from docagent_rl.lab.synth.settings import QuestionKind
from docagent_rl.records.fields import EvidenceSource


class Operation(StrEnum):
    """How an answer follows from printed operands; stored in `extra.derivation`."""

    PAGE_OF = "page_of"
    """The page on which the operand, a heading, is printed."""
    ROW_OF_LARGEST = "row_of_largest"
    """Name of the table row with the largest operand."""
    ROW_OF_SMALLEST = "row_of_smallest"
    DIFFERENCE = "difference"
    """Second operand minus first, without sign."""
    SUM = "sum"
    COUNT_ABOVE = "count_above"
    """How many operands exceed the threshold."""
    COUNT = "count"
    """How many operands there are."""


@dataclass(frozen=True)
class Candidate:
    """A question with its answer and evidence."""

    kind: QuestionKind
    question: str
    answers: tuple[str, ...]
    """The printed or most natural form first."""
    spots: tuple[Spot, ...]
    sources: tuple[EvidenceSource, ...]
    derivation: Mapping[str, Any] | None = None
    """`op`, `operands` and what the operation needs besides; None when the answer is printed."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of `extra`."""


@dataclass(frozen=True)
class Subject:
    """What the authors of questions need to know about a finished document."""

    rendered: Rendered
    rng: random.Random
    theme: Theme
    company: str
    year: int

    @classmethod
    def of(cls, rendered: Rendered, rng: random.Random) -> Subject:
        """Collect it from `rendered`; `rng` chooses among wordings."""
        plan = rendered.plan
        return cls(rendered, rng, THEME_BY_KEY[plan.theme], plan.company, plan.year)

    def unit(self, name: str) -> str:
        """The unit as a phrase that names the document's organisation, too."""
        return f"the {name} {self.theme.unit} of {self.company}"


def number_answers(printed: str) -> tuple[str, ...]:
    """A printed number, then the same without commas or percent sign where that differs."""
    plain = printed.replace(",", "").rstrip("%")
    return (printed,) if plain == printed else (printed, plain)


def to_decimal(printed: str) -> Decimal:
    """The exact value of a printed number."""
    return Decimal(printed.replace(",", "").rstrip("%"))
