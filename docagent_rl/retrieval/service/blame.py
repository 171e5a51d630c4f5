"""Whether it is a query at which a service fails, or the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.retrieval.base import Hit, QueryRefusedError
from docagent_rl.retrieval.failures import ServerFaultError

HARMLESS = "page"
"""A query that any server answers."""
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
Ask = Callable[[Sequence[str]], Awaitable[list[list[Hit]]]]


async def blamed(ask: Ask, queries: Sequence[str], *, refuses_all: str) -> list[list[Hit]]:
    """What a service answers to queries.

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
