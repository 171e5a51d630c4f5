"""Runs the search server: one process, until it is asked to end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.store import PageContent
from docagent_rl.errors import UserError
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service.app import Served, make_app
from docagent_rl.retrieval.service.wire import VERSION, Info

logger = logging.getLogger(__name__)

GRACE_S = 10
"""Seconds that searches have to end in when the server is asked to."""
_IDLE_S = 75
_BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Args:
        host: a name or an address.
        port: 0: one that is free.
    """

    host: str = "127.0.0.1"
    port: int = 0


def describe_index(
    retriever: Retriever, store: DocumentStore, *, kind: str = "", max_waiting: int = 0
) -> Info:
    """What clients compare with what they have.

    Args:
        retriever: one that ranks by texts or images alone says so in `contents` (`PageContent`); without it
            both count.
        store: whose pages it finds.
        kind: of the retriever.
        max_waiting: of its host.
    """
    contents = tuple(getattr(retriever, "contents", PageContent))
    doc_ids = store.doc_ids()
    return Info(
        version=VERSION,
        kind=kind,
        documents=len(doc_ids),
        pages=sum(store.document(doc_id).num_pages for doc_id in doc_ids),
        fingerprints={content.value: store.fingerprint(content) for content in contents},
        max_waiting=max_waiting,
    )


def serve(
    served: Served,
    address: Address,
    *,
    apis: Collection[ServerApi],
    token: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; searches that run are brought to an end.

    Args:
        served: what is served.
        address: where.
        apis: what is spoken.
        token: that clients have to send.
        ready: called with the server's URL once it takes connections.

    Raises:
        UserError: the address cannot be listened at.
    """
    import uvicorn

    listener = _listen(address)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        make_app(served, apis=apis, token=token),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        server_header=False,
        proxy_headers=False,
    )
    # the socket takes connections from now on; what comes before the loop runs waits in its queue
    if ready is not None:
        ready(url)
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def _listen(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(found[0], found[1])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host {address.host} --port {address.port}: cannot listen there ({error})"
        ) from error
    return listener
