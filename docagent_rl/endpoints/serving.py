"""The policy of all our HTTP servers: authentication, host names, and limits of size and time.

Without a token, clients have to use a name of this machine as the host. This keeps out web pages
whose own host name was made to resolve to this machine (DNS rebinding). With a token, any name is
allowed, since such a page does not know the token.
"""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.connections import BoundedProtocol, most_connections

BODY_S = 30.0
"""Seconds within which the body of a request must arrive."""
IDLE_S = 75
"""Maximum seconds that a connection may be idle between requests."""
GRACE_S = 10
"""Seconds that running requests have to end when a server is stopped."""
_LONGEST_HEAD = 96 << 10
_BACKLOG = 4096
_JSON = "application/json"
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_QUERY = "token"
"""The query parameter with the token in the address that a browser opens first."""


class Guard:
    """An ASGI application that protects another one, to which it passes only complete bodies.

    Args:
        app: the other application.
        token: token that clients must send (`Authorization: Bearer`); None: no token.
        names: names of this machine besides `localhost`, its host name and its addresses. They only
            matter without a token.
        open_paths: paths that need no token.
        cookie: name of the cookie in which browsers store the token, which the address that they
            open first has as `?token=`; None: browsers are not served.
        largest_body: maximum size of a request's body in bytes.
        headers: headers of every response.
    """

    def __init__(
        self,
        app: Any,
        *,
        token: str | None = None,
        names: Collection[str] = (),
        open_paths: Collection[str] = (),
        cookie: str | None = None,
        largest_body: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        self._largest_body = largest_body
        self._names = {name.casefold() for name in ("localhost", socket.gethostname(), *names)}
        self._open_paths = open_paths
        self._headers = headers or {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check_head(HTTPConnection(scope))
            async with asyncio.timeout(BODY_S):
                body = await self._body(receive)
        except HTTPException as error:
            # close the connection, since the unread rest of the request may never end
            headers = {**(error.headers or {}), "Connection": "close"}
            refusal = JSONResponse({"error": error.detail}, error.status_code, headers)
            await refusal(scope, receive, answer)
            return
        except TimeoutError:
            late = {"error": f"the body did not arrive within {BODY_S:g} s"}
            await JSONResponse(late, 408, {"Connection": "close"})(scope, receive, answer)
            return
        except ConnectionError:  # the client has disconnected
            return
        given = False

        async def replay() -> dict[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, answer)

    def _check_head(self, request: HTTPConnection) -> None:
        scope = request.scope
        headers = request.headers
        if self._token is None:
            # probes with HTTP/1.0 send no host, but browsers always do
            self._check_name(headers.get("host", "localhost"))
        elif scope["path"] not in self._open_paths:
            self._check_token(request, self._token)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._largest_body and scope["method"] not in _WITHOUT_BODY and kind != _JSON:
            # other web pages may send some content types, but not JSON
            raise HTTPException(415, f"expected Content-Type: {_JSON}")

    def _check_name(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name not in self._names:
                ipaddress.ip_address(name)  # addresses are safe, since they cannot be rebound
        except ValueError:
            problem = "that is not a name of this server: use its address, or start it with a token"
            raise HTTPException(400, problem) from None

    def _check_token(self, request: HTTPConnection, token: str) -> None:
        query = request.query_params
        if _same(request.headers.get("authorization", ""), f"Bearer {token}"):
            return
        if self._cookie and _same(request.cookies.get(self._cookie, ""), token):
            return
        if not (self._cookie and _same(query.get(_QUERY, ""), token)):
            raise HTTPException(
                401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"}
            )
        left = urlencode([(name, value) for name, value in query.multi_items() if name != _QUERY])
        path = f"/{quote(request.scope['path'].lstrip('/'))}"
        headers = {
            "Location": f"{path}?{left}" if left else path,
            "Set-Cookie": f"{self._cookie}={token}; HttpOnly; SameSite=Lax; Path=/",
        }
        raise HTTPException(303, "continue without the token in the address", headers)

    async def _body(self, receive: Any) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            body += message.get("body", b"")
            if len(body) > self._largest_body:
                raise HTTPException(413, f"the body is longer than {self._largest_body:,} bytes")
            if not message.get("more_body", False):
                return bytes(body)


def _same(sent: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(sent.encode("utf-8", "surrogateescape"), token.encode())


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port. Connections wait until a server runs.

    Raises:
        UserError: It is impossible to listen at the address.
    """
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(min(_BACKLOG, most_connections()))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host {host} --port {port}: cannot listen there ({error}): choose another"
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return a server's URL without a path; for all addresses, it has the machine's name."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Guard, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, complete running requests, and close the socket."""
    with listener:
        make_server(app).run(sockets=[listener])


def make_server(app: Guard) -> uvicorn.Server:
    """Return the server of an application, which must be behind a guard."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        backlog=min(_BACKLOG, most_connections()),
        ws="none",
        # applications do nothing at the end, which a second Ctrl-C would interrupt by a traceback
        lifespan="off",
        log_level="warning",
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    return uvicorn.Server(config)
