"""Specifications of rerankers: everything on which scores depend, and the known models."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

import yaml
from pydantic import Field, TypeAdapter, model_validator

from docagent_rl.documents.store import Page, PageContent
from docagent_rl.retrieval.encoders.spec import IMAGE_TOKEN, ModelSpec, find_spec

SPEC_FILE = "docagent_reranker.yaml"
"""The specification in the folder of a checkpoint; `model` is that folder unless the file says
otherwise.
"""
BATCH = 16
"""Number of pairs of query and passage, or page image, per batch."""


class RerankerFamily(StrEnum):
    """Methods of computing a score."""

    CROSS_ENCODER = "cross_encoder"
    """The only output of a sequence classifier, with sentence-transformers: bge-reranker, MiniLM
    and others.
    """
    YES_NO = "yes_no"
    """The logit of `yes` minus that of `no` as the next token of a language model, for texts or
    images: Qwen3-Reranker, Qwen3-VL-Reranker. Its sigmoid is the probability in the model cards.
    """


class RerankerSpec(ModelSpec):
    """A reranker and how to use it.

    Its input is the query in its prompt, followed by the page in its prompt. If a page has several
    passages, the best one counts.
    """

    family: RerankerFamily
    query_tokens: int = Field(128, ge=8)
    """Longer queries are truncated; the rest of the model's length is left for the passage."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        image = self.content is PageContent.IMAGE
        if self.family is RerankerFamily.CROSS_ENCODER and image:
            raise ValueError("models of family cross_encoder read only a page's text")
        if self.family is RerankerFamily.YES_NO and not (self.query_prompt and self.page_prompt):
            raise ValueError("the family yes_no needs query_prompt and page_prompt")
        if image and IMAGE_TOKEN not in (self.page_prompt or ""):
            raise ValueError(f"page_prompt for images must contain {IMAGE_TOKEN}")
        return self


RERANKERS = TypeAdapter(dict[str, RerankerSpec]).validate_python(
    yaml.safe_load(Path(__file__).with_name("models.yaml").read_text("utf-8"))
)
"""Published rerankers by name."""


def named_reranker(name: str, named: str = "rerank.model") -> RerankerSpec:
    """Return the specification of a reranker; see `find_spec`."""
    return find_spec(RerankerSpec, name, RERANKERS, SPEC_FILE, named)


Pair = tuple[str, Page]
"""A query and a page."""


class Reranker(Protocol):
    """A model that scores pages for queries. Implementations must be thread-safe."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the scores of pairs, in order; the higher, the better the page fits the query.

        A score does not depend on the other pairs, and scores of different documents can be
        compared.

        Raises:
            UserError: A page cannot be read.
            InfrastructureError: A server does not respond, or a score is not finite.
        """
        ...
