"""The server: a static page and what it asks for."""

from __future__ import annotations

import logging
import sqlite3
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.guard import Guard, Policy
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.replies import HEADERS, encoded

logger = logging.getLogger(__name__)

STATIC = ("index.html", "app.js", "app.css")
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_NO_PAGE = "<!doctype html><title>docagent-rl view</title><p>The page is not built: see CONTRIBUTING.md."


def make_app(api: Api, token: str, cookie: str) -> Guard:
    """The application.

    Args:
        api: what answers.
        token: that the address holds which is opened first.
        cookie: name of the cookie that holds it from then on.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

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

    return Guard(app, Policy(token, cookie=cookie, headers=HEADERS))


def static_file(name: str) -> Traversable:
    """A file of the page's build."""
    return files("docagent_rl.lab.viewer") / "static" / name


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
