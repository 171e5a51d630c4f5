"""The services that environments share: documents, retrieval, judging."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.retrying import AnswerCache, ConcurrencyLimit, call_service
from docagent_rl.envs.roles import RoleModel
from docagent_rl.envs.search_log import SearchNote, note_search
from docagent_rl.envs.token_budget import TokenCounter, estimated_tokens
from docagent_rl.retrieval import Hit, Retriever
from docagent_rl.retrieval.base import (
    AsyncRetriever,
    NotTakenError,
    QueryRefusedError,
    ServiceFailedError,
)

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore
    from docagent_rl.rewards.judge import Judge

logger = logging.getLogger(__name__)
T = TypeVar("T")
AT_A_TIME = min(32, (os.cpu_count() or 1) + 4)
"""The default number of concurrent searches for each event loop."""
NO_SECOND_RANKING = (
    "ALDEN's hybrid ranks page images and page texts separately, but there is only one retriever: "
    "give docagent.text_retriever an index of its own, or set "
    "docagent.env.search.text_ranking=shared to show what docagent.retriever finds both as images "
    "and as texts"
)


@dataclass(frozen=True, slots=True)
class RetrieverService:
    """Calls a retriever without blocking the event loop.

    Args:
        retriever: the retriever. An asynchronous one is awaited; each call of a synchronous one
            runs in a separate thread.
        attempts: the maximum number of calls for one search if the system (`OSError`) or a service
            fails; any other `InfrastructureError` is final. Searches that a service did not accept
            (`NotTakenError`) do not count; only the deadline ends those.
        deadline_s: the timeout of one search in seconds, not counting the wait for a free slot. A
            call that takes longer is abandoned, but its thread keeps running: retrievers that talk
            to servers need their own timeouts.
        backoff_s: seconds before the second attempt; doubles with every further attempt.
        concurrency: the maximum number of concurrent searches for each event loop.
        name: the name of the retriever in a run's metrics.
        cached: the number of results to cache, for slow retrievers; equal searches that run
            concurrently are then merged into one.
    """

    retriever: Retriever
    attempts: int = 3
    deadline_s: float = 60.0
    backoff_s: float = 0.5
    concurrency: int = AT_A_TIME
    name: str = "retriever"
    cached: int = 0
    _limit: ConcurrencyLimit = field(init=False, repr=False, compare=False)
    _answers: AnswerCache[tuple[Hit, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_limit", ConcurrencyLimit(self.concurrency))
        object.__setattr__(self, "_answers", AnswerCache(self.cached or None))

    async def search(
        self, query: str, *, doc_id: str | None, top_k: int, exclude: Collection[PageRef] = ()
    ) -> list[Hit]:
        """Return the best pages for one query (see `Retriever.search`).

        A query that a service rejects returns no hits, since the policy wrote it. The search is
        recorded (`search_log`).

        Raises:
            InfrastructureError: the retriever failed after all attempts, or missed the deadline.
            UserError: the retriever rejects its arguments, or names documents that no store can
                contain.
        """
        began = time.perf_counter()
        left_out = frozenset(exclude)
        # tokenizers and JSON do not accept lone surrogates
        asked = encodable(query)
        tries = 0
        refused = None

        async def once() -> list[list[Hit]]:
            nonlocal tries
            tries += 1
            arguments: dict[str, Any] = {"doc_id": doc_id, "top_k": top_k, "exclude": left_out}
            if isinstance(self.retriever, AsyncRetriever):
                return await self.retriever.asearch([asked], **arguments)
            return await _in_thread(lambda: self.retriever.search([asked], **arguments))

        try:
            question = (asked, doc_id, top_k, left_out)
            hits, known = await self._answers.get(question, lambda: self._ask(once))
        except QueryRefusedError as error:
            hits = ()
            known = False
            refused = str(error)
            logger.info(
                "%s: a query of %d characters was refused: %s", self.name, len(query), error
            )
        seconds = time.perf_counter() - began
        tries = 0 if known else tries
        note_search(
            SearchNote(self.name, query, doc_id, top_k, left_out, hits, seconds, tries, refused)
        )
        return list(hits)

    async def _ask(self, once: Callable[[], Awaitable[list[list[Hit]]]]) -> tuple[Hit, ...]:
        (hits,) = await call_service(
            once,
            what="retriever",
            attempts=self.attempts,
            deadline_s=self.deadline_s,
            backoff_s=self.backoff_s,
            retry_on=(OSError, ServiceFailedError),
            limit=self._limit,
            uncounted=(NotTakenError,),
        )
        return tuple(hits)


async def _in_thread(function: Callable[[], T]) -> T:
    """Run a function in a separate thread; return its result or raise its exception.

    The threads of `asyncio.to_thread` are shared: hanging calls would use them up, and a call would
    wait for a free thread while its deadline is running.
    """
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(context.run(function))
        # pass any exception on to the caller
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="docagent-search", daemon=True).start()
    return await asyncio.wrap_future(done)


@dataclass(frozen=True, slots=True)
class EnvServices:
    """The services of an environment, shared by all trajectories of a process."""

    store: DocumentStore
    retriever: RetrieverService
    judge: Judge
    text_retriever: RetrieverService | None = None
    """Ranks page texts for systems that list images and texts separately; see `second`."""
    roles: Mapping[str, RoleModel] = field(default_factory=dict)
    """Models that play roles, by `RoleName`; embedded rules play the missing ones."""
    count_tokens: TokenCounter = estimated_tokens
    """Counts the tokens of a text, for systems with token budgets; a cautious estimate by default.
    """
    prompt_tokens: int | None = None
    """The maximum number of prompt tokens, for systems that can shorten their prompt; `None` if
    there is no known limit.
    """

    def second(self) -> RetrieverService:
        """Return the retriever of page texts; raises a `UserError` if there is none."""
        if self.text_retriever is None:
            raise UserError(NO_SECOND_RANKING)
        return self.text_retriever
