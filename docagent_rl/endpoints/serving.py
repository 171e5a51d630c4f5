"""Runs every HTTP server of ours, and says where it listens."""

from __future__ import annotations

import ipaddress
import socket

import uvicorn

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.guard import Guard

IDLE_S = 75
"""Seconds that a connection may wait for its next request."""
GRACE_S = 10
"""Seconds that requests have to end in when a server is asked to."""
_LONGEST_HEAD = 96 << 10
_BACKLOG = 4096


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
        http="h11",  # which bounds the bytes of a head
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
