"""Requests and answers of search servers.

`POST /v1/search`, `GET /v1/info`, `GET /v1/health`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.terminal import visible
from docagent_rl.base.text import encodable
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.base import Hit, QueryRefusedError, Question

VERSION = 1
SEARCH, INFO, HEALTH = "/v1/search", "/v1/info", "/v1/health"
MOST_QUERIES = 256
LONGEST_QUERY = 32_768
"""Characters of a query; the longest that a model has room to write."""
MOST_EXCLUDED = 20_000
HIGHEST_TOP_K = 1_000
LONGEST_ID = 1_024
"""Characters of a document's name."""
LARGEST_BODY = 16 << 20
"""Bytes of a request."""
LONGEST_LINE = 300
_TOO_LONG = ("string_too_long", "too_long", "bytes_too_long")

T = TypeVar("T")
Query = Annotated[str, Field(max_length=LONGEST_QUERY)]
Queries = Annotated[list[Query], Field(max_length=MOST_QUERIES)]
DocId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
PageNumber = Annotated[int, Field(ge=1, lt=1 << 31)]


class SearchRequest(BaseModel):
    """Arguments of `Retriever.search` in JSON."""

    model_config = ConfigDict(strict=True, extra="forbid")

    queries: Queries
    doc_id: DocId | None = None
    top_k: int = Field(10, ge=1, le=HIGHEST_TOP_K)
    exclude: list[tuple[DocId, PageNumber]] = Field(default_factory=list, max_length=MOST_EXCLUDED)

    def question(self) -> Question:
        """Return the search that is asked for."""
        excluded = frozenset(PageRef(doc_id, page) for doc_id, page in self.exclude)
        return Question(tuple(self.queries), self.doc_id, self.top_k, excluded)


class SearchReply(BaseModel):
    """The hits of each query, best first: document, page from 1, score."""

    model_config = ConfigDict(strict=True)
    results: list[list[tuple[DocId, PageNumber, FiniteFloat]]]


class Info(BaseModel):
    """The contents of a server."""

    model_config = ConfigDict(strict=True)
    version: int
    kind: str = ""
    documents: int = 0
    pages: int = 0
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """`DocumentStore.fingerprint` of page texts or images, as far as the ranking uses them."""
    max_waiting: int = 0


def request_body(question: Question) -> bytes:
    """Return a search as it is sent.

    Raises:
        QueryRefusedError: a query is longer than any server takes.
    """
    if any(len(query) > LONGEST_QUERY for query in question.queries):
        raise QueryRefusedError(f"a query of more than {LONGEST_QUERY} characters")
    request = SearchRequest.model_construct(
        queries=question.sendable,
        doc_id=None if question.doc_id is None else encodable(question.doc_id),
        top_k=question.top_k,
        exclude=sorted((ref.doc_id, ref.page) for ref in question.exclude),
    )
    return request.model_dump_json().encode()


def reply_body(results: Sequence[Sequence[Hit]]) -> bytes:
    """Return an answer as it is sent."""
    rows = [[(hit.ref.doc_id, hit.ref.page, float(hit.score)) for hit in hits] for hits in results]
    return SearchReply.model_construct(results=rows).model_dump_json().encode()


def read_reply(body: bytes) -> list[list[Hit]]:
    """Return the hits of an answer; the inverse of `reply_body`.

    Raises:
        ValueError: it is something else; the message is one line.
    """
    try:
        reply = SearchReply.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    return [[Hit(PageRef(doc, page), score) for doc, page, score in hits] for hits in reply.results]


def check_hits(answer: Sequence[Sequence[Hit]], question: Question, num_pages: Mapping[str, int]) -> None:
    """Check that an answer holds what was asked for; `num_pages` are those of each document of the store.

    Raises:
        ValueError: not as many lists as queries, or pages that nobody asked for.
        InfrastructureError: a page that the store does not have.
    """
    if len(answer) != len(question.queries):
        raise ValueError(f"answers to {len(answer)} queries, and {len(question.queries)} were asked")
    for hits in answer:
        pages = {hit.ref for hit in hits}
        others = question.doc_id is not None and any(ref.doc_id != question.doc_id for ref in pages)
        if others or pages & question.exclude or len(pages) < len(hits) or len(hits) > question.top_k:
            raise ValueError("pages that were not asked for")
        for ref in pages:
            if ref.page > num_pages.get(ref.doc_id, 0):
                raise InfrastructureError(
                    f"the server found {str(ref)[:200]!r}, which the store does not have"
                )


def read_request(model: type[T], body: bytes) -> T:
    """Return the body of a request.

    Raises:
        RefusalError: it is something else. 400: no JSON; 413: too much of something; 422: anything else.
    """
    try:
        return TypeAdapter(model).validate_json(body)
    except ValidationError as error:
        kinds = [each["type"] for each in error.errors(include_url=False, include_input=False)]
        status = 413 if any(kind in _TOO_LONG for kind in kinds) else 422
        raise RefusalError(400 if "json_invalid" in kinds else status, first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a body, in one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"]) or "body"
    return one_line(f"{where}: {first['msg']}")


def one_line(text: object) -> str:
    """Return a text as one line that is safe to show."""
    return visible(" ".join(str(text).split()))[:LONGEST_LINE]
