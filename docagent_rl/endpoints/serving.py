"""Runs every HTTP server of ours: where it listens, and how long a request's head may take."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.guard import LONGEST_ADDRESS, Guard

HEAD_S = 20.0
"""Seconds in which the head of a request has to arrive, also that of a connection's first."""
IDLE_S = 75
"""Seconds that a connection may wait for its next request."""
GRACE_S = 10
"""Seconds that requests have to end in when a server is asked to."""
_LONGEST_HEAD = LONGEST_ADDRESS + (32 << 10)
_BACKLOG = 4096


class TimedProtocol(H11Protocol):
    """Uvicorn's, which waits for the rest of a head without end; this one closes the connection.

    h11 bounds the bytes of a head; httptools does not.
    """

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.transport.close)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections, at a free port for 0; they wait until a server runs.

    Raises:
        UserError: the address cannot be listened at.
    """
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host {host} --port {port}: cannot listen there ({error}): name another"
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return a server's URL without a path; one that listens at all addresses has the machine's name."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Guard, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, bring requests that are answered to an end, and close the socket."""
    with listener:
        make_server(app).run(sockets=[listener])


def make_server(app: Guard) -> uvicorn.Server:
    """Return the server of an application; none runs without a guard."""
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_level="warning",
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    return uvicorn.Server(config)
