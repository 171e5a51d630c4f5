"""Rerankers: all that decides over a score, and the names of known ones."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

import yaml
from pydantic import Field, TypeAdapter, model_validator

from docagent_rl.documents.store import Page, PageContent
from docagent_rl.retrieval.encoders.spec import IMAGE_TOKEN, ModelSpec, find_spec

SPEC_FILE = "docagent_reranker.yaml"
"""In the folder of a checkpoint: how it is used; `model` is that folder unless the file says
another.
"""
BATCH = 16
"""Pairs of query and passage, or page image, scored at a time."""


class RerankerFamily(StrEnum):
    """Ways to a score."""

    CROSS_ENCODER = "cross_encoder"
    """The one number of a sequence classifier, by sentence-transformers: bge-reranker, MiniLM's,
    others.
    """
    YES_NO = "yes_no"
    """The logit of `yes` minus that of `no` as the next token of a language model, of text or with
    images: Qwen3-Reranker, Qwen3-VL-Reranker. Its sigmoid is the probability of the model cards.
    """


class RerankerSpec(ModelSpec):
    """A reranker and its use: the query's prompt, then the page's, of whose passages the best
    counts.
    """

    family: RerankerFamily
    query_tokens: int = Field(128, ge=8)
    """Longer queries lose their end; the rest of the model's length is the passage's."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        image = self.content is PageContent.IMAGE
        if self.family is RerankerFamily.CROSS_ENCODER and image:
            raise ValueError("models of family cross_encoder read a page's text")
        if self.family is RerankerFamily.YES_NO and not (self.query_prompt and self.page_prompt):
            raise ValueError("the family yes_no needs query_prompt and page_prompt")
        if image and IMAGE_TOKEN not in (self.page_prompt or ""):
            raise ValueError(f"page_prompt of images holds {IMAGE_TOKEN}")
        return self


RERANKERS = TypeAdapter(dict[str, RerankerSpec]).validate_python(
    yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
)
"""Published ones by name."""


def named_reranker(name: str, named: str = "rerank.model") -> RerankerSpec:
    """Return the specification of a reranker; see `find_spec`."""
    return find_spec(RerankerSpec, name, RERANKERS, SPEC_FILE, named)


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
