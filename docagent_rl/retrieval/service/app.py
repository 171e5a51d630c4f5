"""The search server's application: the native API, and those of released servers beside it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from docagent_rl.endpoints.guard import Guard, Policy, RefusalError
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service import alden, vrag_rl, wire
from docagent_rl.retrieval.service.served import Served

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

logger = logging.getLogger(__name__)


def make_app(
    served: Served,
    *,
    apis: Collection[ServerApi] = (ServerApi.NATIVE,),
    token: str | None = None,
    names: Collection[str] = (),
) -> Guard:
    """Return an ASGI application.

    Args:
        served: what it answers from.
        apis: which it speaks.
        token: that clients have to send.
        names: under which it is asked without a token (`Policy.names`).
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        served.close()

    routes = {
        ServerApi.NATIVE: _routes,
        ServerApi.VRAG_RL: vrag_rl.routes,
        ServerApi.VRAG_RL_FAISS: vrag_rl.faiss_routes,
        ServerApi.ALDEN: alden.routes,
    }
    handlers: dict[Any, Any] = {
        RefusalError: _refused,
        HTTPException: _of_framework,
        Exception: _unforeseen,
    }
    app = Starlette(
        routes=[route for api in ServerApi if api in apis for route in routes[api](served)],
        exception_handlers=handlers,
        lifespan=lifespan,
    )
    open_paths = (wire.HEALTH, alden.HEALTH)
    return Guard(app, Policy(token, names, open_paths, largest_body=wire.LARGEST_BODY))


def _routes(served: Served) -> list[Route]:
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def search(request: Request) -> Response:
        asked = wire.read_request(wire.SearchRequest, await request.body())
        found = await served.search(asked.question())
        return Response(wire.reply_body(found), media_type="application/json")

    async def health(_: Request) -> Response:
        await served.check_health()
        return JSONResponse({"status": "healthy"})

    async def info(_: Request) -> Response:
        return JSONResponse(served.info.model_dump())

    return [
        Route(wire.SEARCH, search, methods=["POST"]),
        Route(wire.HEALTH, health),
        Route(wire.INFO, info),
    ]


async def _refused(_: Request, error: Any) -> Response:
    return _failed(error.status, error.message, error.headers)


async def _of_framework(_: Request, error: Any) -> Response:
    return _failed(error.status_code, wire.one_line(error.detail), error.headers)


async def _unforeseen(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _failed(500, f"internal error: {type(error).__name__}")


def _failed(status: int, message: str, headers: Any = None) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": message}, status, headers)
