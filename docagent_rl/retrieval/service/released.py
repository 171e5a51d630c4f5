"""The search servers that papers have released, as clients see them."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BaseModel, Field, FiniteFloat, StringConstraints, TypeAdapter, ValidationError

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.surrogates import encodable
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, QueryRefusedError
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.alden_api import MOST_PAGES
from docagent_rl.retrieval.service.dialects import Call, Dialect, NativeDialect, Question
from docagent_rl.retrieval.service.vrag_api import PAGES_A_QUERY, page_of

LONGEST_IN_ADDRESS = 4_000
"""Bytes of a query that travels in an address, which servers and proxies bound at about 8,000."""


class _Image(BaseModel):
    image_file: str


class _Found(BaseModel):
    score: list[FiniteFloat]
    data: list[_Image]


class _Results(BaseModel):
    results: list[_Found]


_IMAGES: TypeAdapter[list[list[_Image]]] = TypeAdapter(list[list[_Image]])


class VragDialect:
    """VRAG-RL's and UniDoc-RL's: ten pages of the whole corpus, without scores.

    Pages of other documents and excluded ones are left out of the ten, so that there may be fewer than asked
    for. Scores are reciprocal ranks.
    """

    largest_reply = 16 << 20
    native = False

    def call(self, question: Question) -> Call:
        """See `Dialect.call`."""
        queries = [encodable(query) for query in question.queries]
        if any(len(query.encode()) > LONGEST_IN_ADDRESS for query in queries):
            raise QueryRefusedError(f"a query of more than {LONGEST_IN_ADDRESS} bytes, for an address")
        if question.top_k > PAGES_A_QUERY:
            raise InfrastructureError(
                f"the server gives {PAGES_A_QUERY} pages a query, and top_k is {question.top_k}: lower "
                "docagent.env.search.top_k"
            )
        return Call("GET", "/search", params=[("queries", query) for query in queries])

    def read(self, body: bytes, question: Question) -> list[list[Hit]]:
        """See `Dialect.read`."""
        found = _checked(_IMAGES, body)
        return [
            [Hit(page_of(each.image_file), 1.0 / rank) for rank, each in enumerate(images, start=1)]
            for images in found
        ]


class VragFaissDialect:
    """VRAG-RL's newer one: as many pages of the whole corpus as are asked for.

    More are asked for where some are excluded, and ten times as many for one document.
    """

    largest_reply = 16 << 20
    native = False

    def call(self, question: Question) -> Call:
        """See `Dialect.call`."""
        top_k = (question.top_k + question.hidden) * (1 if question.doc_id is None else 10)
        asked = {
            "queries": [encodable(query) for query in question.queries],
            "top_k": min(top_k, wire.HIGHEST_TOP_K),
            "search_corpus": None,
        }
        return Call("POST", "/search", json.dumps(asked).encode())

    def read(self, body: bytes, question: Question) -> list[list[Hit]]:
        """See `Dialect.read`."""
        hits = []
        for found in _checked(TypeAdapter(_Results), body).results:
            if len(found.score) != len(found.data):
                raise ValueError(f"{len(found.score)} scores for {len(found.data)} pages")
            hits.append(
                [Hit(page_of(each.image_file), s) for each, s in zip(found.data, found.score, strict=True)]
            )
        return hits


class _Page(BaseModel):
    id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")] | Annotated[int, Field(ge=0, lt=10**9)]


_SCORED: TypeAdapter[tuple[list[list[_Page]], list[list[FiniteFloat]]]] = TypeAdapter(
    tuple[list[list[_Page]], list[list[FiniteFloat]]]
)


class AldenDialect:
    """ALDEN's: pages of one document, from 0, with their images, which are not looked at.

    Excluded pages are asked for in addition and left out.
    """

    largest_reply = 128 << 20
    native = False

    def call(self, question: Question) -> Call:
        """See `Dialect.call`."""
        if question.doc_id is None:
            raise InfrastructureError(
                "a server of ALDEN searches one document, and the environment searches all: set "
                "docagent.env.search.scope=document, or use a server of another kind"
            )
        asked = {
            "query": [encodable(query) for query in question.queries],
            "id": [question.doc_id] * len(question.queries),
            "top_n": min(question.top_k + question.hidden, MOST_PAGES),
            "return_score": True,
            "recall_ocr": False,
            "mm_fetch": False,
        }
        return Call("POST", "/batch_search", json.dumps(asked).encode())

    def read(self, body: bytes, question: Question) -> list[list[Hit]]:
        """See `Dialect.read`."""
        pages, scores = _checked(_SCORED, body)
        if [len(each) for each in pages] != [len(each) for each in scores]:
            raise ValueError("not as many scores as pages")
        doc_id = question.doc_id or ""
        return [
            [
                Hit(PageRef(doc_id, int(page.id) + 1), score)
                for page, score in zip(found, numbers, strict=True)
            ]
            for found, numbers in zip(pages, scores, strict=True)
        ]


_DIALECTS: dict[ServerApi, type[Dialect]] = {
    ServerApi.NATIVE: NativeDialect,
    ServerApi.VRAG_RL: VragDialect,
    ServerApi.VRAG_RL_FAISS: VragFaissDialect,
    ServerApi.ALDEN: AldenDialect,
}


def dialect_of(api: ServerApi) -> Dialect:
    """What a server of this kind speaks."""
    return _DIALECTS[api]()


def _checked(adapter: TypeAdapter, body: bytes):
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise ValueError(wire.told(error)) from None
