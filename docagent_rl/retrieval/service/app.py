"""The search server's application."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.store import PageContent
from docagent_rl.endpoints.guard import Guard, RefusalError
from docagent_rl.retrieval.base import NotTakenError, QueryRefusedError, Retriever
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.wire import VERSION, Info, one_line

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

logger = logging.getLogger(__name__)
T = TypeVar("T")


def describe_index(retriever: Retriever, store: DocumentStore, *, kind: str = "") -> Info:
    """Return the facts that clients compare with theirs.

    A retriever that ranks by texts or images alone says so in `contents` (`PageContent`); otherwise both
    count.
    """
    doc_ids = store.doc_ids()
    return Info(
        version=VERSION,
        kind=kind,
        documents=len(doc_ids),
        pages=sum(store.document(doc_id).num_pages for doc_id in doc_ids),
        fingerprints={
            content.value: store.fingerprint(content)
            for content in getattr(retriever, "contents", PageContent)
        },
    )


async def _answered(host: SearchHost, search: Awaitable[T]) -> T:
    """Return the result of a search; every failure is an answer of HTTP.

    Raises:
        RefusalError: names it.
    """
    try:
        return await search
    except NotTakenError as error:
        later = error.retry_after_s
        headers = {} if later is None else {"Retry-After": f"{later:g}"}
        raise RefusalError(503, one_line(error), headers) from None
    except TimeoutError:
        raise RefusalError(504, f"no result within {host.deadline_s:g} s") from None
    except QueryRefusedError as error:
        raise RefusalError(422, one_line(error)) from None
    except UserError as error:
        raise RefusalError(404, one_line(error)) from None
    except InfrastructureError as error:
        raise RefusalError(502, one_line(error)) from None


def make_app(host: SearchHost, info: Info, *, token: str | None = None, names: Collection[str] = ()) -> Guard:
    """Return the ASGI application, whose `GET /v1/info` says `info`.

    `names` are those of `Guard`, for clients without a token.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        host.close()

    handlers: dict[Any, Any] = {
        RefusalError: _refused,
        HTTPException: _of_framework,
        Exception: _unforeseen,
    }
    app = Starlette(routes=_routes(host, info), exception_handlers=handlers, lifespan=lifespan)
    return Guard(app, token=token, names=names, open_paths=(wire.HEALTH,), largest_body=wire.LARGEST_BODY)


def _routes(host: SearchHost, info: Info) -> list[Route]:
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def search(request: Request) -> Response:
        try:
            asked = wire.SearchRequest.model_validate_json(await request.body())
        except ValidationError as error:
            raise RefusalError(422, wire.first_problem(error)) from None
        found = await _answered(host, host.search(asked.question()))
        return Response(wire.reply_body(found), media_type="application/json")

    async def health(_: Request) -> Response:
        await _answered(host, host.probe())
        return JSONResponse({"status": "healthy"})

    async def about(_: Request) -> Response:
        return JSONResponse(info.model_dump())

    return [
        Route(wire.SEARCH, search, methods=["POST"]),
        Route(wire.HEALTH, health),
        Route(wire.INFO, about),
    ]


async def _refused(_: Request, error: Any) -> Response:
    return _failed(error.status, error.message, error.headers)


async def _of_framework(_: Request, error: Any) -> Response:
    return _failed(error.status_code, one_line(error.detail), error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _failed(500, f"internal error: {type(error).__name__}")


def _failed(status: int, message: str, headers: Any = None) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": message}, status, headers)
