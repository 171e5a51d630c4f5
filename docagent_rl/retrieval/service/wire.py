"""Requests and responses of search servers.

`POST /v1/search`, `GET /v1/info`, `GET /v1/health`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import encodable, unique_keys, visible
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, SearchArguments
from docagent_rl.retrieval.service.host import LONGEST_QUERY

SEARCH = "/v1/search"
INFO = "/v1/info"
HEALTH = "/v1/health"
MOST_QUERIES = 256
MOST_EXCLUDED = 1 << 16
MOST_HITS = 1 << 16
"""Maximum number of hits of a search, for all its queries together."""
LARGEST_BODY = 16 << 20
"""Maximum bytes of a request."""
LONGEST_LINE = 300

Query = Annotated[str, Field(max_length=LONGEST_QUERY)]
DocId = Annotated[str, Field(min_length=1)]
PageNumber = Annotated[int, Field(ge=1, lt=1 << 31)]


class SearchRequest(BaseModel):
    """The arguments of `Retriever.search` as JSON."""

    model_config = ConfigDict(strict=True, extra="forbid")

    # only the first problem is reported: errors about millions of items would take gigabytes
    queries: Annotated[list[Query], Field(max_length=MOST_QUERIES, fail_fast=True)]
    doc_id: DocId | None = None
    top_k: int = Field(10, ge=1)
    exclude: list[tuple[DocId, PageNumber]] = Field(
        default_factory=list, max_length=MOST_EXCLUDED, fail_fast=True
    )

    def question(self) -> SearchArguments:
        """Return the arguments of the search."""
        excluded = frozenset(PageRef(doc_id, page) for doc_id, page in self.exclude)
        return SearchArguments(tuple(self.queries), self.doc_id, self.top_k, excluded)


_Hits = Annotated[list[tuple[DocId, PageNumber, FiniteFloat]], Field(fail_fast=True)]


class SearchReply(BaseModel):
    """The hits of each query, best first: document id, page number from 1, score."""

    model_config = ConfigDict(strict=True)
    results: Annotated[list[_Hits], Field(max_length=MOST_QUERIES, fail_fast=True)]


class Info(BaseModel):
    """Information about the index of a server."""

    model_config = ConfigDict(strict=True)
    kind: str = ""
    documents: int = 0
    pages: int = 0
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """`DocumentStore.fingerprint` of page texts or images, whichever affect the ranking."""


def request_body(question: SearchArguments) -> bytes:
    """Return the body of a search request."""
    request = SearchRequest.model_construct(
        queries=list(question.queries),
        doc_id=None if question.doc_id is None else encodable(question.doc_id),
        top_k=question.top_k,
        exclude=sorted((ref.doc_id, ref.page) for ref in question.exclude),
    )
    return request.model_dump_json().encode()


def read_request(body: bytes) -> SearchRequest:
    """Parse the body of a search request.

    Raises:
        ValueError: The body is something else, or has a key twice; the message is one line.
    """
    try:
        asked = SearchRequest.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    json.loads(body, object_pairs_hook=unique_keys)  # of repeated keys, pydantic takes the last
    return asked


def reply_body(results: Sequence[Sequence[Hit]]) -> bytes:
    """Return the body of a response."""
    rows = [[(hit.ref.doc_id, hit.ref.page, float(hit.score)) for hit in hits] for hits in results]
    return SearchReply.model_construct(results=rows).model_dump_json().encode()


def read_hits(body: bytes) -> list[list[Hit]]:
    """Parse the body of a response; the inverse of `reply_body`.

    Raises:
        ValueError: The body is something else; the message is one line.
    """
    try:
        reply = SearchReply.model_validate_json(body)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    return [[Hit(PageRef(doc, page), score) for doc, page, score in hits] for hits in reply.results]


def check_hits(
    answer: Sequence[Sequence[Hit]], question: SearchArguments, num_pages: Mapping[str, int]
) -> None:
    """Check that a response fits the search; `num_pages` has the pages of each document.

    Raises:
        ValueError: There are not as many lists as queries, or more hits than `top_k`.
        InfrastructureError: A hit is not a page of the store.
    """
    if len(answer) != len(question.queries) or any(len(hits) > question.top_k for hits in answer):
        raise ValueError(
            f"expected hits for {len(question.queries)} queries, at most {question.top_k} each"
        )
    for ref in {hit.ref for hits in answer for hit in hits}:
        if ref.page > num_pages.get(ref.doc_id, 0):
            raise InfrastructureError(
                f"the server found {str(ref)[:200]!r}, which the store does not have"
            )


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a body as one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"]) or "body"
    return safe_line(f"{where}: {first['msg']}")


def safe_line(text: object) -> str:
    """Return a text as one line that is safe to show."""
    return visible(" ".join(str(text).split()))[:LONGEST_LINE]
