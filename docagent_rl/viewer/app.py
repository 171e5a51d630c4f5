"""The server: a static page and what it asks for."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from docagent_rl.errors import UserError
from docagent_rl.viewer.api import Api
from docagent_rl.viewer.replies import HEADERS, encoded

logger = logging.getLogger(__name__)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
STATIC = ("index.html", "app.js", "app.css")
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_NO_PAGE = "<!doctype html><title>docagent-rl view</title><p>The page is not built: see CONTRIBUTING.md."


def make_app(api: Api, hosts: Collection[str] = LOOPBACK) -> FastAPI:
    """The application.

    Args:
        api: what answers.
        hosts: names and addresses under which it may be asked. Another one is a page elsewhere whose name
            was made to mean this machine.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    allowed = frozenset(host.casefold() for host in hosts)

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if _host(request.headers.get("host", "")) not in allowed:
            response: Response = _error(400, "this address is not served here")
        elif request.method not in ("GET", "HEAD"):
            response = _error(405, "everything here is for reading: GET")
        else:
            response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        if "cache-control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        return response

    @app.exception_handler(UserError)
    async def told(request: Request, error: UserError) -> Response:
        return _error(getattr(error, "status", 404), str(error))

    @app.exception_handler(sqlite3.Error)
    async def failed(request: Request, error: sqlite3.Error) -> Response:
        logger.warning("the index cannot be read: %s", error)
        return _error(503, f"the index cannot be read ({error}); it is made anew, or remove it")

    @app.get("/api/{path:path}")
    def asked(path: str, request: Request) -> Response:
        # as it was sent: what is decoded may hold slashes of names
        raw = request.scope.get("raw_path") or request.url.path.encode()
        reply = api.answer(raw.decode("ascii", "replace"), request.url.query)
        headers = {"Cache-Control": "private, max-age=31536000, immutable"} if reply.lasting else {}
        return Response(reply.content, media_type=reply.type, headers=headers)

    @app.get("/{name}")
    def static(name: str) -> Response:
        return _static(name)

    @app.get("/")
    def page() -> Response:
        return _static("index.html")

    return app


def static_file(name: str) -> Traversable:
    """A file of the page's build."""
    return files("docagent_rl.viewer") / "static" / name


def _static(name: str) -> Response:
    if name not in STATIC:
        return _error(404, "no such page")
    file = static_file(name)
    if not file.is_file():
        return HTMLResponse(_NO_PAGE)
    media = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return Response(file.read_bytes(), media_type=media, headers={"Cache-Control": "no-cache"})


def _error(status: int, text: str) -> Response:
    return Response(encoded({"error": text}), status_code=status, media_type="application/json")


def _host(header: str) -> str:
    """The name in a `Host` header, without its port."""
    name = header.strip().casefold()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if ":" in name else name
