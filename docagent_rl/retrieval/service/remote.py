"""A retriever whose searches run elsewhere, and whose fault it is when one fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import AsyncRetriever, Hit, QueryRefusedError, ServerFaultError
from docagent_rl.retrieval.service.host import HARMLESS

FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
Ask = Callable[[Sequence[str]], Awaitable[list[list[Hit]]]]
T = TypeVar("T")
_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


class RemoteRetriever(AsyncRetriever, Protocol):
    """An `AsyncRetriever` that threads may ask too."""

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """Search as `asearch`, for threads."""
        return _in_background(self.asearch(queries, doc_id=doc_id, top_k=top_k, exclude=exclude))


async def ask_blaming(ask: Ask, queries: Sequence[str], *, refuses_all: str) -> list[list[Hit]]:
    """Return what a service answers to queries.

    A query that is refused, or that makes a service fail `FAULTS` times while it answers a harmless one in
    its place each time, is at fault.

    Args:
        ask: one request with these queries and otherwise the same arguments.
        queries: what to ask.
        refuses_all: what to say where the harmless query is refused as well.

    Raises:
        QueryRefusedError: the queries are at fault.
        InfrastructureError: the service refuses any query.
        ServiceFailedError: it fails otherwise.
    """
    faults = 0
    while True:
        try:
            return await ask(queries)
        except QueryRefusedError as refused:
            try:
                await ask([HARMLESS])
            except QueryRefusedError:
                raise InfrastructureError(f"{refuses_all} ({refused})") from None
            raise
        except ServerFaultError as error:
            faults += 1
            # raises where the service answers nothing else either
            await ask([HARMLESS])
            if faults == FAULTS:
                raise QueryRefusedError(f"the service fails at it and at nothing else: {error}") from None


def _in_background(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, on an event loop that the threads of this process share."""
    with _lock:
        if not _background:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="docagent-background", daemon=True).start()
            _background.append(loop)
    return asyncio.run_coroutine_threadsafe(work, _background[0]).result()
