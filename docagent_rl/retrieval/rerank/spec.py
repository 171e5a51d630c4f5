"""Rerankers: all that decides over a score, and the names of known ones."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from docagent_rl.base.section import Section
from docagent_rl.documents.store import Page, PageContent
from docagent_rl.retrieval.encoders.spec import (
    IMAGE_TOKEN,
    PLACE,
    Precision,
    Prompt,
    read_description,
    validated,
)

SPEC_FILE = "docagent_reranker.yaml"
"""In the folder of a checkpoint: how it is used; `model` is that folder unless the file says another."""


class RerankerFamily(StrEnum):
    """Ways to a score."""

    CROSS_ENCODER = "cross_encoder"
    """The one number of a sequence classifier, by sentence-transformers: bge-reranker, MiniLM's, others."""
    YES_NO = "yes_no"
    """The logit of `yes` minus that of `no` as the next token of a language model, of text or with images:
    Qwen3-Reranker, Qwen3-VL-Reranker. Its sigmoid is the probability of the model cards."""


class RerankerSpec(Section):
    """A reranker and its use."""

    family: RerankerFamily
    model: str
    """A name of the hub, a folder, or `wheel:<package>` of an installed one."""
    revision: str | None = None
    content: PageContent = PageContent.TEXT
    query_prompt: Prompt | None = None
    """With `{}` for the query; comes before the page."""
    page_prompt: str | None = None
    """With `{}` for the passage; for images the text around the image, with its token."""
    query_tokens: int = Field(128, ge=8)
    """Longer queries lose their end; the rest of the model's length is the passage's."""
    page_tokens: int | None = Field(None, ge=16)
    """Longer texts become several passages of this length, of which the best counts; null: as long as the
    model takes."""
    overlap: int = Field(32, ge=0)
    """Tokens that neighbouring passages share."""
    min_pixels: int | None = Field(None, ge=1)
    max_pixels: int | None = Field(None, ge=1)
    """Bounds of an image after the processor's resize; null: as the checkpoint says."""
    yes: str = "yes"
    no: str = "no"
    dtype: Precision = Precision.FLOAT32

    @model_validator(mode="after")
    def _sound(self) -> Self:
        image = self.content is PageContent.IMAGE
        if self.family is RerankerFamily.CROSS_ENCODER and image:
            raise ValueError("models of family cross_encoder read a page's text")
        if self.family is RerankerFamily.YES_NO and not (self.query_prompt and self.page_prompt):
            raise ValueError("the family yes_no needs query_prompt and page_prompt")
        if image and IMAGE_TOKEN not in (self.page_prompt or ""):
            raise ValueError(f"page_prompt of images holds {IMAGE_TOKEN}")
        if not image and self.page_prompt and self.page_prompt.count(PLACE) != 1:
            raise ValueError("page_prompt has one {} for the text of the page")
        return self


class KnownReranker(BaseModel):
    """A published reranker; `models.yaml` says what the fields are."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    spec: RerankerSpec
    millions: float
    facts: str


RERANKERS = TypeAdapter(dict[str, KnownReranker]).validate_python(
    yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
)


def named_reranker(name: str, named: str = "rerank.model") -> RerankerSpec:
    """Return the specification of a reranker: of the table, of a file, or of a folder that holds `SPEC_FILE`.

    Raises:
        UserError: there is none of that name, or the file is no specification.
    """
    if name in RERANKERS:
        return RERANKERS[name].spec
    content, file = read_description(name, SPEC_FILE, RERANKERS, named)
    return validated(RerankerSpec, content, file)


Pair = tuple[str, Page]
"""A query and a page."""


class Reranker(Protocol):
    """Scores pages, each together with a query. May be called from several threads at once."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Score pairs, in their order: the higher, the better the page answers.

        A score does not depend on the other pairs, and compares pages of different documents.

        Raises:
            UserError: a page cannot be read.
            InfrastructureError: a server does not answer, or a score is not finite.
        """
        ...
