"""The server: a static page, and the API that it requests."""

import logging
import secrets
import sqlite3
import threading
import webbrowser
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Request
from starlette.responses import Response

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.serving import Guard
from docagent_rl.lab.viewer.api import Api, as_json
from docagent_rl.lab.viewer.runs import OpenRun, follow_runs

logger = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page runs only shipped code and sends requests only to this server; text from elsewhere never
becomes code.
"""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_LASTING = {"Cache-Control": "private, max-age=31536000, immutable"}
_STATIC = {"index.html": "text/html", "app.js": "text/javascript", "app.css": "text/css"}


def make_viewer_app(api: Api, token: str, cookie: str) -> Guard:
    """Return the application; `token` is part of the address that is opened first, and from then on
    is in the `cookie`.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.exception_handler(UserError)
    async def refused(request: Request, error: UserError) -> Response:
        return _error(getattr(error, "status", 404), str(error))

    @app.exception_handler(sqlite3.Error)
    async def failed(request: Request, error: sqlite3.Error) -> Response:
        logger.warning("the index cannot be read: %s", error)
        return _error(
            503, f"the index cannot be read ({error}); wait for it to be rebuilt, or remove it"
        )

    @app.get("/api/{path:path}")
    def answer(path: str, request: Request) -> Response:
        # the raw path, since decoded names may contain slashes
        raw = request.scope.get("raw_path") or request.url.path.encode()
        content, kind, lasting = api.answer(raw.decode("ascii", "replace"), request.url.query)
        return Response(content, media_type=kind, headers=_LASTING if lasting else {})

    @app.get("/{name}")
    def static(name: str) -> Response:
        if name not in _STATIC:
            return _error(404, "no such page")
        media = f"{_STATIC[name]}; charset=utf-8"
        content = static_file(name).read_bytes()
        return Response(content, media_type=media, headers={"Cache-Control": "no-cache"})

    @app.get("/")
    def page() -> Response:
        return static("index.html")

    return Guard(app, token=token, cookie=cookie, headers=HEADERS)


def static_file(name: str) -> Traversable:
    """Return a file of the page's build."""
    return files("docagent_rl.lab.viewer") / "static" / name


def serve(
    runs: Sequence[OpenRun], *, host: str = "127.0.0.1", port: int = 0, browse: bool = False
) -> None:
    """Serve the runs until interrupted, at an address that is printed and contains a secret token.

    Port 0 means any free port; `browse` opens the page in the user's browser.

    Raises:
        UserError: the address cannot be bound.
    """
    from docagent_rl.endpoints.serving import listen, run, url_of

    listener = listen(host, port)
    token = secrets.token_urlsafe(32)
    # browsers keep cookies by name and host, whatever the port
    app = make_viewer_app(Api(runs), token, f"docagent-view-{listener.getsockname()[1]}")
    address = f"{url_of(listener)}/?token={token}"
    over = threading.Event()
    threading.Thread(target=follow_runs, args=(runs, over), daemon=True).start()
    print(f"{address}   (press Ctrl-C to stop)", flush=True)
    if browse:
        webbrowser.open(address)
    try:
        run(app, listener)
    except KeyboardInterrupt:
        pass  # the normal way to stop it
    finally:
        over.set()


def _error(status: int, text: str) -> Response:
    return Response(
        as_json({"error": text}).content, status_code=status, media_type="application/json"
    )
