"""The search API of ALDEN's released server.

Source: ALDEN, `rag_serving/serving.py`. Pages of answers count from 0; `3-th` in a request counts from 1.
Its single `/search` and `/fetch` are not served: the released client does not send them what they need.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.endpoints.guard import RefusalError
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.service.wire import LONGEST_ID, MOST_QUERIES, Query

if TYPE_CHECKING:
    from fastapi import FastAPI

    from docagent_rl.retrieval.service.app import Served

HEALTH = "/health"
MOST_PAGES = 100
"""Of a query; their images travel with them."""
LARGEST_ANSWER = 1_000
"""Pages that one request may bring."""
WRONG_FORM = "Request form is wrong, please correct it!"
NO_PAGE = "Requested page number does not exist!"
_ORDINAL = re.compile(r"\s*([0-9]{1,9})(?:-(?:th|st|nd|rd))?\s*", re.IGNORECASE)
_FORMED = re.compile(r"\s*(image|text)\s*,\s*([0-9]{1,9})(?:-(?:th|st|nd|rd))?\s*", re.IGNORECASE)
Ids = Annotated[list[Annotated[str, Field(max_length=LONGEST_ID)]], Field(max_length=MOST_QUERIES)]


class Form(StrEnum):
    """How a page is given."""

    IMAGE = "image"
    TEXT = "text"


class BatchSearch(BaseModel):
    """`POST /batch_search`; fields that the released server does not know are ignored, as there."""

    model_config = ConfigDict(extra="ignore")
    query: Annotated[list[Query], Field(max_length=MOST_QUERIES)]
    id: Ids
    top_n: int = Field(10, ge=1, le=MOST_PAGES)
    return_score: bool = False
    recall_ocr: bool = False
    mm_fetch: bool = False


class BatchFetch(BaseModel):
    """`POST /batch_fetch`."""

    model_config = ConfigDict(extra="ignore")
    query: Annotated[list[Query], Field(max_length=MOST_QUERIES)]
    id: Ids
    mm_fetch: bool = False


def add(app: FastAPI, served: Served) -> None:
    """`/health`, `/batch_search` and `/batch_fetch`."""
    from fastapi import Request

    from docagent_rl.retrieval.service.app import read

    async def health() -> Any:
        await served.check_health()
        return {"status": "healthy", "retrievers": {"total": 1, "available": 1}}

    async def batch_search(request: Request) -> Any:
        asked = read(BatchSearch, await request.body())
        _check_pairs(asked.query, asked.id)
        if len(asked.query) * asked.top_n > LARGEST_ANSWER:
            raise RefusalError(
                413, f"query: {LARGEST_ANSWER} pages at most, {len(asked.query)} x top_n asked"
            )
        images = await _ranked(served, asked, texts=False)
        parts: list[Any] = [await asyncio.to_thread(_contents, served.store, images, Form.IMAGE)]
        if asked.return_score:
            parts.append(_scores(images))
        if asked.recall_ocr:
            found = await _ranked(served, asked, texts=True)
            parts.append(await asyncio.to_thread(_contents, served.store, found, Form.TEXT))
            if asked.return_score:
                parts.append(_scores(found))
        return parts if len(parts) > 1 else parts[0]

    async def batch_fetch(request: Request) -> Any:
        asked = read(BatchFetch, await request.body())
        _check_pairs(asked.query, asked.id)
        return await asyncio.to_thread(
            lambda: [
                fetched(served.store, doc_id, wanted, formed=asked.mm_fetch)
                for wanted, doc_id in zip(asked.query, asked.id, strict=True)
            ]
        )

    batch_search.__annotations__ = batch_fetch.__annotations__ = {"request": Request}
    app.add_api_route(HEALTH, health, methods=["GET"], response_model=None)
    app.add_api_route("/batch_search", batch_search, methods=["POST"], response_model=None)
    app.add_api_route("/batch_fetch", batch_fetch, methods=["POST"], response_model=None)


def fetched(store: DocumentStore, doc_id: str, wanted: str, *, formed: bool) -> dict[str, str]:
    """A page by its number.

    Args:
        store: the documents; one that it does not have has no pages.
        doc_id: of the document.
        wanted: `3-th`, or, where the form is named too, `image, 3` or `text, 3`; from 1.
        formed: whether the form is named.

    Returns:
        `id` (`image, 2`, from 0) and `contents`; or `error` and what was wrong.
    """
    match = (_FORMED if formed else _ORDINAL).fullmatch(wanted)
    if match is None:
        return {"id": "error", "contents": WRONG_FORM}
    form, number = (Form(match[1].lower()), int(match[2])) if formed else (Form.IMAGE, int(match[1]))
    if doc_id not in store or not 1 <= number <= store.document(doc_id).num_pages:
        return {"id": "error", "contents": NO_PAGE}
    return {
        "id": f"{form.value}, {number - 1}",
        "contents": _content(store, PageRef(doc_id, number), form),
    }


async def _ranked(served: Served, asked: BatchSearch, *, texts: bool) -> list[list[Hit]]:
    """Hits of each query in its document; queries of one document go together."""
    groups: dict[str, list[int]] = {}
    for number, doc_id in enumerate(asked.id):
        groups.setdefault(doc_id, []).append(number)
    found: list[list[Hit]] = [[] for _ in asked.query]
    answers = await asyncio.gather(
        *(
            served.search([asked.query[n] for n in numbers], doc_id=doc_id, top_k=asked.top_n, texts=texts)
            for doc_id, numbers in groups.items()
        )
    )
    for numbers, hits in zip(groups.values(), answers, strict=True):
        for number, each in zip(numbers, hits, strict=True):
            found[number] = each
    return found


def _check_pairs(queries: Sequence[str], ids: Sequence[str]) -> None:
    if len(queries) != len(ids):
        raise RefusalError(422, f"id: {len(ids)} documents for {len(queries)} queries; give one for each")


def _contents(store: DocumentStore, found: Sequence[Sequence[Hit]], form: Form) -> list[list[dict[str, str]]]:
    return [
        [{"id": str(hit.ref.page - 1), "contents": _content(store, hit.ref, form)} for hit in hits]
        for hits in found
    ]


def _scores(found: Sequence[Sequence[Hit]]) -> list[list[float]]:
    return [[float(hit.score) for hit in hits] for hits in found]


def _content(store: DocumentStore, ref: PageRef, form: Form) -> str:
    page = store.page(ref)
    if form is Form.TEXT:
        return page.text()
    return base64.b64encode(page.image_bytes()).decode("ascii")
