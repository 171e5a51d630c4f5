"""What goes over the wire in the native API: `POST /v1/search`, `GET /v1/info`, `GET /v1/health`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from docagent_rl.base.surrogates import encodable
from docagent_rl.base.terminal import visible
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit

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
_TOO_LONG = ("string_too_long", "too_long", "bytes_too_long")
_LONGEST_LINE = 300

Query = Annotated[str, Field(max_length=LONGEST_QUERY)]
DocId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
PageNumber = Annotated[int, Field(ge=1, lt=1 << 31)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class SearchRequest(_Strict):
    """Arguments of `Retriever.search`."""

    queries: list[Query] = Field(max_length=MOST_QUERIES)
    doc_id: DocId | None = None
    top_k: int = Field(10, ge=1, le=HIGHEST_TOP_K)
    exclude: list[tuple[DocId, PageNumber]] = Field(default_factory=list, max_length=MOST_EXCLUDED)

    def pages(self) -> frozenset[PageRef]:
        """The pages to leave out."""
        return frozenset(PageRef(doc_id, page) for doc_id, page in self.exclude)


class SearchReply(BaseModel):
    """For each query its hits, best first: document, page from 1, score."""

    model_config = ConfigDict(strict=True)
    results: list[list[tuple[DocId, PageNumber, FiniteFloat]]]


class Info(BaseModel):
    """What a server has."""

    model_config = ConfigDict(strict=True)
    version: int
    kind: str = ""
    documents: int = 0
    pages: int = 0
    fingerprints: dict[str, str] = Field(default_factory=dict)
    """Of the store's page texts or images (`DocumentStore.fingerprint`), as far as the ranking uses them."""
    max_waiting: int = 0


_REPLY = TypeAdapter(SearchReply)


def request_body(
    queries: Sequence[str], doc_id: str | None, top_k: int, exclude: Collection[PageRef]
) -> bytes:
    """A search as it is sent; halves of characters become question marks."""
    request = SearchRequest.model_construct(
        queries=[encodable(query) for query in queries],
        doc_id=None if doc_id is None else encodable(doc_id),
        top_k=int(top_k),
        exclude=sorted((ref.doc_id, ref.page) for ref in exclude),
    )
    return request.model_dump_json().encode()


def reply_body(results: Sequence[Sequence[Hit]]) -> bytes:
    """An answer as it is sent."""
    rows = [[(hit.ref.doc_id, hit.ref.page, float(hit.score)) for hit in hits] for hits in results]
    return _REPLY.dump_json(SearchReply.model_construct(results=rows))


def read_reply(body: bytes) -> list[list[Hit]]:
    """The inverse of `reply_body`.

    Raises:
        ValueError: it is something else; the message is one line.
    """
    try:
        reply = _REPLY.validate_json(body)
    except ValidationError as error:
        raise ValueError(told(error)) from None
    return [[Hit(PageRef(doc, page), score) for doc, page, score in hits] for hits in reply.results]


def told(error: ValidationError) -> str:
    """The first problem of a body, in one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:60] for part in first["loc"]) or "body"
    return visible(f"{where}: {first['msg']}".replace("\n", " "))[:_LONGEST_LINE]


def status_of(error: ValidationError) -> int:
    """400: no JSON; 413: too much of something; 422: anything else."""
    kinds = [each["type"] for each in error.errors(include_url=False, include_input=False)]
    if "json_invalid" in kinds:
        return 400
    return 413 if any(kind in _TOO_LONG for kind in kinds) else 422
