"""The configuration of question generation: kinds of questions, page views, and the filters."""

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
    """Several pages of one document together answer it, and each of them is needed."""
    TABLE = "table"
    """A table answers it."""
    CHART = "chart"
    """A chart or another figure answers it."""
    PAGE_INDEX = "page_index"
    """It asks about a page that it names by its physical number."""
    UNANSWERABLE = "unanswerable"
    """No page of the document answers it, although it reads as if one did."""

    @property
    def source(self) -> EvidenceSource:
        """The kind of content that the evidence is."""
        return {"table": EvidenceSource.TABLE, "chart": EvidenceSource.CHART}.get(
            self, EvidenceSource.TEXT
        )


class QuestionDifficulty(StrEnum):
    """The amount of work that it takes to answer a question."""

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
        """True if the model needs to see pictures."""
        return self is not PageView.TEXT


class JudgedBy(StrEnum):
    """The judge of answers in the checks."""

    RULE = "rule"
    """`rewards.rule_judge`: needs no requests, but takes a paraphrased answer for a wrong one."""
    MODEL = "model"
    """A model, unless the rules already find the answer right."""


class KindConfig(Section):
    """Settings for questions of one kind and difficulty, including their number."""

    kind: EvidenceKind
    difficulty: QuestionDifficulty = QuestionDifficulty.MEDIUM
    per_document: int = Field(2, ge=0, le=1000)
    """Requests for such questions per document; each shows different pages as long as there are
    any.
    """
    questions: int = Field(1, ge=1, le=10)
    """Most questions per request."""
    pages: int | None = Field(None, ge=1, le=50)
    """Pages shown in a request; by default 2 for `multi_page`, 3 for `unanswerable`, else 1."""

    @property
    def shown(self) -> int:
        """Number of pages shown in a request."""
        return self.pages or {EvidenceKind.MULTI_PAGE: 2, EvidenceKind.UNANSWERABLE: 3}.get(
            self.kind, 1
        )

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.kind is EvidenceKind.MULTI_PAGE and self.shown < 2:
            raise ValueError("multi_page questions need 2 or more pages per request")
        if self.kind is EvidenceKind.PAGE_INDEX and self.shown != 1:
            raise ValueError("page_index questions need exactly 1 page per request")
        return self


class FilterConfig(Section):
    """The checks of a question, in the order in which they apply; each can be switched off."""

    closed_book: bool = True
    """The model must not be able to answer rightly from the question without any page."""
    clear: bool = True
    """A reader of the document who was not shown these pages must understand the question."""
    grounded: bool = True
    """The evidence must suffice for a right answer."""
    needed: bool = True
    """If the evidence is several pages, none of them may be dispensable."""
    elsewhere: bool = True
    """Other pages of the document must not suffice for a right answer."""
    elsewhere_pages: int = Field(6, ge=1, le=100)
    """Number of other pages that are shown: those that share most words with question and
    answer.
    """
    unanswered: bool = True
    """No page of the document may answer an unanswerable question; all pages are checked."""
    window: int = Field(6, ge=1, le=100)
    """Pages per request in that check."""


class PromptNames(Section):
    """Prompt files: names of shipped ones, or paths of your own with the same parts."""

    write: str = "generate_write"
    page: str = "generate_page"
    answer: str = "generate_answer"
    closed_book: str = "generate_closed_book"
    clear: str = "generate_clear"
    judge: str = "judge"


_SEEDS = 100_003
"""Distance between the seeds of runs, so that they do not overlap."""
_KINDS = tuple(KindConfig(kind=kind) for kind in EvidenceKind)


class GenerateConfig(Section):
    """The configuration of `docagent-rl data generate`."""

    kinds: tuple[KindConfig, ...] = Field(_KINDS, min_length=1)
    view: PageView = PageView.TEXT
    seed: int = 0
    """Seed for choosing pages and for sampling."""
    split: Split = Split.TRAIN
    dataset: str = Field("generated", min_length=1)
    temperature: float = Field(0.7, ge=0, le=2)
    """Temperature for writing questions; everything else uses the model's own, 0 by default."""
    json_schema: bool = False
    """Have the server enforce the shape of replies (`response_format`); small models need it."""
    max_pixels: int = Field(1_000_000, ge=28 * 28)
    """Pictures of pages are scaled down to this area."""
    judge: JudgedBy = JudgedBy.MODEL
    filters: FilterConfig = FilterConfig()
    prompts: PromptNames = PromptNames()

    def sampling(self, sample: int) -> tuple[Sampling, int]:
        """Return the sampling for writing, and a number that distinguishes equal requests under
        this seed.
        """
        number = self.seed * _SEEDS + sample
        return Sampling(temperature=self.temperature, seed=number), number

    def most(self) -> dict[EvidenceKind, int]:
        """Return the most questions of each kind per document."""
        found: Counter[EvidenceKind] = Counter()
        for asked in self.kinds:
            found[asked.kind] += asked.per_document * asked.questions
        return found

    @classmethod
    def load(cls, file: Path | None, options: Mapping[str, Any]) -> GenerateConfig:
        """Read a YAML file; `options` take precedence.

        Raises:
            UserError: the file is not a YAML mapping, or a key is unknown or invalid; the message
                names it.
        """
        written = {} if file is None else read_yaml(file, "kinds: [{kind: table}]")
        given = {name: value for name, value in options.items() if value is not None}
        return validated(cls, merged(written, given), "generate" if file is None else str(file))
