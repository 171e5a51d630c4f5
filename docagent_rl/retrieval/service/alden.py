"""The search API of ALDEN's released server, served and asked.

Source: ALDEN, `rag_serving/serving.py`. Pages of answers count from 0; `3-th` in a request counts from 1.
Its single `/search` and `/fetch` are not served: the released client does not send them what they need.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, TypeAdapter

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.base import Hit, Question
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.wire import Call

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from docagent_rl.retrieval.service.app import Served

HEALTH = "/health"
MOST_PAGES = 100
"""Pages of a query; their images travel with them."""
LARGEST_ANSWER = 1_000
"""Pages that one request may bring."""
WRONG_FORM = "Request form is wrong, please correct it!"
NO_PAGE = "Requested page number does not exist!"
_ORDINAL = re.compile(r"\s*([0-9]{1,9})(?:-(?:th|st|nd|rd))?\s*", re.IGNORECASE)
_FORMED = re.compile(r"\s*(image|text)\s*,\s*([0-9]{1,9})(?:-(?:th|st|nd|rd))?\s*", re.IGNORECASE)


class Form(StrEnum):
    """Forms of a page; images come first in an answer."""

    IMAGE = "image"
    TEXT = "text"


class _Pairs(BaseModel):
    # fields that the released server does not know are ignored, as there
    model_config = ConfigDict(extra="ignore")
    query: wire.Queries
    id: Annotated[
        list[Annotated[str, Field(max_length=wire.LONGEST_ID)]], Field(max_length=wire.MOST_QUERIES)
    ]
    mm_fetch: bool = False

    def check(self) -> None:
        """Check that there is a document for each query."""
        if len(self.query) != len(self.id):
            raise RefusalError(
                422, f"id: {len(self.id)} documents for {len(self.query)} queries; give one for each"
            )


class _Search(_Pairs):
    top_n: int = Field(10, ge=1, le=MOST_PAGES)
    return_score: bool = False
    recall_ocr: bool = False


def routes(served: Served) -> list[Route]:
    """Return `/health`, `/batch_search` and `/batch_fetch`."""
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def health(_: Request) -> Response:
        await served.check_health()
        return JSONResponse({"status": "healthy", "retrievers": {"total": 1, "available": 1}})

    async def search(request: Request) -> Response:
        asked = wire.read_request(_Search, await request.body())
        asked.check()
        if len(asked.query) * asked.top_n > LARGEST_ANSWER:
            raise RefusalError(
                413, f"query: {LARGEST_ANSWER} pages at most, {len(asked.query)} x top_n asked"
            )
        parts: list[Any] = []
        for form in Form if asked.recall_ocr else (Form.IMAGE,):
            found = await _ranked(served, asked, texts=form is Form.TEXT)
            parts.append(await asyncio.to_thread(_contents, served.store, found, form))
            if asked.return_score:
                parts.append([[float(hit.score) for hit in hits] for hits in found])
        return JSONResponse(parts if len(parts) > 1 else parts[0])

    async def fetch(request: Request) -> Response:
        asked = wire.read_request(_Pairs, await request.body())
        asked.check()
        pairs = list(zip(asked.id, asked.query, strict=True))
        found = await asyncio.to_thread(
            lambda: [fetch_page(served.store, *pair, formed=asked.mm_fetch) for pair in pairs]
        )
        return JSONResponse(found)

    return [
        Route(HEALTH, health),
        Route("/batch_search", search, methods=["POST"]),
        Route("/batch_fetch", fetch, methods=["POST"]),
    ]


def fetch_page(store: DocumentStore, doc_id: str, page: str, *, formed: bool) -> dict[str, str]:
    """Return a page by its number from 1: `3-th`, or, if `formed`, `image, 3` or `text, 3`.

    A document that the store does not have has no pages. The reply has `id` (`image, 2`, from 0) and
    `contents`; or `error` and the problem.
    """
    match = (_FORMED if formed else _ORDINAL).fullmatch(page)
    if match is None:
        return {"id": "error", "contents": WRONG_FORM}
    form, number = (Form(match[1].lower()), int(match[2])) if formed else (Form.IMAGE, int(match[1]))
    if doc_id not in store or not 1 <= number <= store.document(doc_id).num_pages:
        return {"id": "error", "contents": NO_PAGE}
    return {
        "id": f"{form.value}, {number - 1}",
        "contents": _content(store, PageRef(doc_id, number), form),
    }


async def _ranked(served: Served, asked: _Search, *, texts: bool) -> list[list[Hit]]:
    """Return the hits of each query in its document; queries of one document go together."""
    groups: dict[str, list[str]] = {}
    for doc_id, query in zip(asked.id, asked.query, strict=True):
        groups.setdefault(doc_id, []).append(query)
    answers = await asyncio.gather(
        *(
            served.search(Question(tuple(queries), doc_id, asked.top_n), texts=texts)
            for doc_id, queries in groups.items()
        )
    )
    found = {doc_id: iter(hits) for doc_id, hits in zip(groups, answers, strict=True)}
    return [next(found[doc_id]) for doc_id in asked.id]


def _contents(store: DocumentStore, found: Sequence[Sequence[Hit]], form: Form) -> list[list[dict[str, str]]]:
    return [
        [{"id": str(hit.ref.page - 1), "contents": _content(store, hit.ref, form)} for hit in hits]
        for hits in found
    ]


def _content(store: DocumentStore, ref: PageRef, form: Form) -> str:
    page = store.page(ref)
    if form is Form.TEXT:
        return page.text()
    return base64.b64encode(page.image_bytes()).decode("ascii")


class _Page(BaseModel):
    id: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")] | Annotated[int, Field(ge=0, lt=10**9)]


_SCORED: TypeAdapter[tuple[list[list[_Page]], list[list[FiniteFloat]]]] = TypeAdapter(
    tuple[list[list[_Page]], list[list[FiniteFloat]]]
)


def _call(question: Question) -> Call:
    if question.doc_id is None:
        raise InfrastructureError(
            "a server of ALDEN searches one document, and the environment searches all: set "
            "docagent.env.search.scope=document, or use a server of another kind"
        )
    asked = {
        "query": question.sendable,
        "id": [question.doc_id] * len(question.queries),
        "top_n": min(question.top_k + question.hidden, MOST_PAGES),
        "return_score": True,
        "recall_ocr": False,
        "mm_fetch": False,
    }
    return Call("POST", "/batch_search", json.dumps(asked).encode())


def _read(body: bytes, question: Question) -> list[list[Hit]]:
    pages, scores = wire.validate_reply(_SCORED, body)
    if [len(each) for each in pages] != [len(each) for each in scores]:
        raise ValueError("not as many scores as pages")
    doc_id = question.doc_id or ""
    return [
        [Hit(PageRef(doc_id, int(page.id) + 1), score) for page, score in zip(found, numbers, strict=True)]
        for found, numbers in zip(pages, scores, strict=True)
    ]


DIALECT = wire.Dialect(_call, _read, largest_reply=128 << 20)
"""ALDEN's: pages of one document, from 0, with their images, which are not looked at.

Excluded pages are asked for in addition and left out.
"""
