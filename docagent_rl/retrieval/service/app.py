"""The application of the search server."""

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.endpoints.serving import Guard
from docagent_rl.retrieval.base import NotTakenError, QueryRefusedError, Retriever
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.wire import Info, safe_line

STALE = "stale"
"""Value instead of fingerprints if the index does not match the store."""
RETRY_AFTER_S = "1"
"""Seconds after which clients should retry at a busy server."""
logger = logging.getLogger(__name__)
T = TypeVar("T")


def describe_index(
    retriever: Retriever, store: DocumentStore, *, kind: str = "", stale: bool = False
) -> Info:
    """Return the facts that clients compare with their own store; a `stale` index matches none.

    A retriever that ranks only by texts or only by images says so in `contents` (`PageContent`, or
    its values); otherwise both are compared.

    Raises:
        UserError: A user's retriever names other contents.
    """
    contents = getattr(retriever, "contents", PageContent)
    try:
        contents = [PageContent(content) for content in contents]
    except (TypeError, ValueError) as error:
        known = ", ".join(content.value for content in PageContent)
        raise UserError(
            f"{type(retriever).__name__}.contents={contents!r}: name some of {known}"
        ) from error
    doc_ids = store.doc_ids()
    return Info(
        kind=kind,
        documents=len(doc_ids),
        pages=sum(store.document(doc_id).num_pages for doc_id in doc_ids),
        fingerprints={
            content.value: STALE if stale else store.fingerprint(content) for content in contents
        },
    )


async def _answered(host: SearchHost, search: Awaitable[T]) -> T:
    """Return the result of a search; turn every failure into an HTTP response."""
    try:
        return await search
    except NotTakenError as error:
        raise HTTPException(503, safe_line(error), {"Retry-After": RETRY_AFTER_S}) from None
    except TimeoutError:
        raise HTTPException(504, f"no result within {host.deadline_s:g} s") from None
    except (QueryRefusedError, UserError, InfrastructureError) as error:
        status = {QueryRefusedError: 422, InfrastructureError: 502}
        found = next((code for kind, code in status.items() if isinstance(error, kind)), 404)
        raise HTTPException(found, safe_line(error)) from None


def make_search_app(
    host: SearchHost,
    info: Callable[[], Info],
    *,
    token: str | None = None,
    names: Collection[str] = (),
) -> Guard:
    """Return the ASGI application; its `GET /v1/info` returns the result of `info`.

    `names` are passed on to `Guard`, for clients without a token.
    """
    handlers: dict[Any, Any] = {HTTPException: _refused, Exception: _unforeseen}
    app = Starlette(routes=_routes(host, info), exception_handlers=handlers)
    return Guard(
        app, token=token, names=names, open_paths=(wire.HEALTH,), largest_body=wire.LARGEST_BODY
    )


def _routes(host: SearchHost, info: Callable[[], Info]) -> list[Route]:
    async def search(request: Request) -> Response:
        try:
            asked = wire.read_request(await request.body())
        except ValueError as error:
            raise HTTPException(422, wire.safe_line(error)) from None
        if len(asked.queries) * min(asked.top_k, info().pages) > wire.MOST_HITS:
            raise HTTPException(
                422,
                f"top_k: {len(asked.queries)} queries for {asked.top_k} pages each may return more "
                f"than {wire.MOST_HITS:,} hits",
            )
        found = await _answered(host, host.search(asked.question()))
        return Response(wire.reply_body(found), media_type="application/json")

    async def health(_: Request) -> Response:
        await _answered(host, host.probe())
        return JSONResponse({"status": "healthy"})

    async def about(_: Request) -> Response:
        return JSONResponse(info().model_dump())

    return [
        Route(wire.SEARCH, search, methods=["POST"]),
        Route(wire.HEALTH, health),
        Route(wire.INFO, about),
    ]


async def _refused(_: Request, error: Any) -> Response:
    return JSONResponse({"error": safe_line(error.detail)}, error.status_code, error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": f"internal error: {type(error).__name__}"}, 500)
