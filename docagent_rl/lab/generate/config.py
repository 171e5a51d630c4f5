"""The configuration of generation: kinds of questions, how pages are shown, and the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section, merged, read_yaml, validated
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.samples.sample import EvidenceSource, Split


class EvidenceKind(StrEnum):
    """The evidence that a question needs."""

    SINGLE_PAGE = "single_page"
    """One page answers it."""
    MULTI_PAGE = "multi_page"
    """Several pages of one document answer it together, and each of them is needed."""
    TABLE = "table"
    """A table answers it."""
    CHART = "chart"
    """A chart or another figure answers it."""
    PAGE_INDEX = "page_index"
    """It names the page that it asks about, by its physical number."""
    UNANSWERABLE = "unanswerable"
    """No page of the document answers it, though it reads as if one did."""

    @property
    def source(self) -> EvidenceSource:
        """The kind of content that is its evidence."""
        return {"table": EvidenceSource.TABLE, "chart": EvidenceSource.CHART}.get(
            self, EvidenceSource.TEXT
        )


class QuestionDifficulty(StrEnum):
    """The work that a question is."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class PageView(StrEnum):
    """The form in which pages are shown to the model."""

    TEXT = "text"
    IMAGE = "image"
    BOTH = "both"

    @property
    def pictures(self) -> bool:
        """True if the model has to see pictures."""
        return self is not PageView.TEXT


class JudgedBy(StrEnum):
    """The judge of answers in checks."""

    RULE = "rule"
    """`rewards.rule_judge`: no request; it takes an answer in other words for a wrong one."""
    MODEL = "model"
    """A model, where the rule does not find it right already."""


class KindConfig(Section):
    """Questions of one kind and difficulty."""

    kind: EvidenceKind
    difficulty: QuestionDifficulty = QuestionDifficulty.MEDIUM
    per_document: int = Field(2, ge=0, le=1000)
    """Requests for such questions, for every document; each shows other pages as long as there are
    some.
    """
    questions: int = Field(1, ge=1, le=10)
    """Questions of one request at most."""
    pages: int | None = Field(None, ge=1, le=50)
    """Pages shown in a request; by default 2 for `multi_page`, 3 for `unanswerable`, else 1."""

    @property
    def shown(self) -> int:
        """Pages shown in a request."""
        return self.pages or {EvidenceKind.MULTI_PAGE: 2, EvidenceKind.UNANSWERABLE: 3}.get(
            self.kind, 1
        )

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.kind is EvidenceKind.MULTI_PAGE and self.shown < 2:
            raise ValueError("questions over several pages are asked with 2 pages or more")
        if self.kind is EvidenceKind.PAGE_INDEX and self.shown != 1:
            raise ValueError("a question that names its page is asked with that page alone")
        return self


class FilterConfig(Section):
    """The checks of a question, in the order of the funnel; each can be left out."""

    closed_book: bool = True
    """The question alone must not be answered rightly."""
    clear: bool = True
    """A reader of the document who was not shown these pages must know what is asked for."""
    grounded: bool = True
    """The evidence alone must be answered from, rightly."""
    needed: bool = True
    """None of several pages of evidence may be left out."""
    elsewhere: bool = True
    """Other pages of the document must not be answered from, rightly."""
    elsewhere_pages: int = Field(6, ge=1, le=100)
    """Number of other pages that are shown: those that share most words with question and
    answer.
    """
    unanswered: bool = True
    """No page of the document may answer a question that is to have no answer; all are looked
    at.
    """
    window: int = Field(6, ge=1, le=100)
    """Pages of the document that are looked at in one request for that."""


class PromptNames(Section):
    """Prompt files: names of this package's, or paths of yours with the same parts."""

    write: str = "generate_write"
    page: str = "generate_page"
    answer: str = "generate_answer"
    closed_book: str = "generate_closed_book"
    clear: str = "generate_clear"
    judge: str = "judge"


_SEEDS = 100_003
"""Seeds of one run lie apart from those of the next."""
_KINDS = tuple(KindConfig(kind=kind) for kind in EvidenceKind)


class GenerateConfig(Section):
    """The configuration of `docagent-rl data generate`."""

    kinds: tuple[KindConfig, ...] = Field(_KINDS, min_length=1)
    view: PageView = PageView.TEXT
    seed: int = 0
    """The seed of the choice of pages and of the sampling."""
    split: Split = Split.TRAIN
    dataset: str = Field("generated", min_length=1)
    temperature: float = Field(0.7, ge=0, le=2)
    """The temperature of writing; all else is asked at the model's own, 0 by default."""
    json_schema: bool = False
    """The server lets through only replies of the shape (`response_format`); small models need
    it.
    """
    max_pixels: int = Field(1_000_000, ge=28 * 28)
    """Pictures of pages are reduced to that area."""
    judge: JudgedBy = JudgedBy.MODEL
    filters: FilterConfig = FilterConfig()
    prompts: PromptNames = PromptNames()

    def sampling(self, sample: int) -> tuple[Sampling, int]:
        """Return the sampling of writing, and the number under this seed that tells equal requests
        apart.
        """
        number = self.seed * _SEEDS + sample
        return Sampling(temperature=self.temperature, seed=number), number

    def most(self) -> dict[EvidenceKind, int]:
        """Return the questions of each kind about a document at most."""
        found: Counter[EvidenceKind] = Counter()
        for asked in self.kinds:
            found[asked.kind] += asked.per_document * asked.questions
        return found

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> GenerateConfig:
        """Read a YAML file with options over it.

        Raises:
            UserError: the file is no YAML mapping, or a key is unknown or wrong; the message names
                it.
        """
        written = {} if file is None else read_yaml(file, "kinds: [{kind: table}]")
        given = {name: value for name, value in options.items() if value is not None}
        return validated(cls, merged(written, given), "generate" if file is None else str(file))
