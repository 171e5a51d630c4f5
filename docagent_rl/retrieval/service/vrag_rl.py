"""The search APIs of VRAG-RL's and UniDoc-RL's released servers, served and asked.

Sources: VRAG-RL, `search_engine_api.py` (`GET /search?queries=a&queries=b`, at most ten pages a query) and
`search_engine_faiss_api.py` (`POST /search`). Both name a page by its image, `<document>_<page>.jpg`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.base import Hit, QueryRefusedError, Question
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.wire import Call

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from docagent_rl.retrieval.service.app import Served

PAGES_A_QUERY = 10
LONGEST_IN_ADDRESS = 4_000
"""Bytes of a query that travels in an address, which servers and proxies bound at about 8,000."""
_NUMBER = re.compile(r"[0-9]{1,9}")


def image_name(ref: PageRef) -> str:
    """Return the name of a page's image."""
    return f"{ref.doc_id}_{ref.page}.jpg"


def page_of(image_file: str) -> PageRef:
    """Return the page whose image has this name, in any folder: split at the last underscore.

    Raises:
        ValueError: it is no such name.
    """
    name = image_file.replace("\\", "/").rpartition("/")[2]
    doc_id, _, number = name.rpartition(".")[0].rpartition("_")
    if not doc_id or len(doc_id) > wire.LONGEST_ID or not _NUMBER.fullmatch(number) or int(number) < 1:
        raise ValueError(f"{name[:80]!r} is no name of a page's image: expected <document>_<page>.jpg")
    return PageRef(doc_id, int(number))


class _Asked(BaseModel):
    # as lenient as the released server, which ignores what it does not know
    model_config = ConfigDict(extra="ignore")
    queries: wire.Queries | wire.Query
    top_k: int = Field(3, ge=1, le=wire.HIGHEST_TOP_K)
    search_corpus: Any = None


def routes(served: Served) -> list[Route]:
    """Return `GET /search`: for each query its pages, best first; `idx` counts them from 0."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def search(request: Request) -> Response:
        queries = request.query_params.getlist("queries")
        if not queries:
            raise RefusalError(422, "queries: missing; ask as /search?queries=...&queries=...")
        if len(queries) > wire.MOST_QUERIES or max(map(len, queries)) > wire.LONGEST_QUERY:
            raise RefusalError(
                413, f"queries: at most {wire.MOST_QUERIES}, of at most {wire.LONGEST_QUERY} characters each"
            )
        found = await served.search(Question(tuple(queries), top_k=PAGES_A_QUERY))
        return JSONResponse(
            [
                [{"idx": rank, "image_file": _image_file(served, hit)} for rank, hit in enumerate(hits)]
                for hits in found
            ]
        )

    return [Route("/search", search, methods=["GET"])]


def faiss_routes(served: Served) -> list[Route]:
    """Return `POST /search`: `queries` (one or several), `top_k`; scores, rows and image files of each."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def search(request: Request) -> Response:
        asked = wire.read_request(_Asked, await request.body())
        queries = [asked.queries] if isinstance(asked.queries, str) else asked.queries
        found = await served.search(Question(tuple(queries), top_k=asked.top_k))
        results = [
            {
                "score": [float(hit.score) for hit in hits],
                "indice": list(range(len(hits))),
                "data": [{"image_file": _image_file(served, hit)} for hit in hits],
            }
            for hits in found
        ]
        return JSONResponse({"results": results})

    return [Route("/search", search, methods=["POST"])]


def _image_file(served: Served, hit: Hit) -> str:
    return f"{served.image_folder}/{image_name(hit.ref)}"


class _Image(BaseModel):
    image_file: str


class _Found(BaseModel):
    score: list[FiniteFloat]
    data: list[_Image]


class _Results(BaseModel):
    results: list[_Found]


_IMAGES: TypeAdapter[list[list[_Image]]] = TypeAdapter(list[list[_Image]])


def _call(question: Question) -> Call:
    queries = question.sendable
    if any(len(query.encode()) > LONGEST_IN_ADDRESS for query in queries):
        raise QueryRefusedError(f"a query of more than {LONGEST_IN_ADDRESS} bytes, for an address")
    if question.top_k > PAGES_A_QUERY:
        raise InfrastructureError(
            f"the server gives {PAGES_A_QUERY} pages a query, and top_k is {question.top_k}: lower "
            "docagent.env.search.top_k"
        )
    return Call("GET", "/search", params=[("queries", query) for query in queries])


def _read(body: bytes, question: Question) -> list[list[Hit]]:
    found = wire.validate_reply(_IMAGES, body)
    return [
        [Hit(page_of(each.image_file), 1.0 / rank) for rank, each in enumerate(images, start=1)]
        for images in found
    ]


DIALECT = wire.Dialect(_call, _read)
"""VRAG-RL's and UniDoc-RL's: ten pages of the whole corpus, without scores; scores are reciprocal ranks.

Pages of other documents and excluded ones are left out of the ten, so that there may be fewer than asked
for.
"""


def _call_faiss(question: Question) -> Call:
    top_k = (question.top_k + question.hidden) * (1 if question.doc_id is None else 10)
    asked = {
        "queries": question.sendable,
        "top_k": min(top_k, wire.HIGHEST_TOP_K),
        "search_corpus": None,
    }
    return Call("POST", "/search", json.dumps(asked).encode())


def _read_faiss(body: bytes, question: Question) -> list[list[Hit]]:
    hits = []
    for found in wire.validate_reply(TypeAdapter(_Results), body).results:
        if len(found.score) != len(found.data):
            raise ValueError(f"{len(found.score)} scores for {len(found.data)} pages")
        hits.append(
            [Hit(page_of(each.image_file), s) for each, s in zip(found.data, found.score, strict=True)]
        )
    return hits


FAISS_DIALECT = wire.Dialect(_call_faiss, _read_faiss)
"""VRAG-RL's newer one: as many pages of the whole corpus as are asked for.

More are asked for where some are excluded, and ten times as many for one document.
"""
