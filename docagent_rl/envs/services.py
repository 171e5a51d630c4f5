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
"""Searches in threads, for every event loop."""
NO_SECOND_RANKING = (
    "the hybrid of ALDEN lists page images and page texts by two rankings, and there is one "
    "retriever: give "
    "docagent.text_retriever an index of its own, or set docagent.env.search.text_ranking=shared "
    "to show "
    "what docagent.retriever finds as images and once more as texts"
)


@dataclass(frozen=True, slots=True)
class RetrieverService:
    """Asks a retriever without holding up the event loop.

    Args:
        retriever: awaited if it is asynchronous; every call of another runs in a thread of its own.
        attempts: calls for one search at most, where the system fails (`OSError`) or a service
            does; another `InfrastructureError` is final. Searches that a service did not take
            (`NotTakenError`) do not
            count: only the deadline ends those.
        deadline_s: seconds for one search, waiting for its turn left out. A call that hangs for
            longer is given up, but its thread goes on: retrievers that talk to servers need
                timeouts of their own.
        backoff_s: seconds before the second attempt; doubles.
        concurrency: searches at a time, for every event loop.
        name: in the numbers of a run.
        cached: answers that are kept, for slow retrievers; equal searches that run together are one
            then.
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

        A query that a service refuses has no hits: whoever wrote it is at fault. The search is
        noted (`search_log`).

        Raises:
            InfrastructureError: the retriever failed after its attempts, or the deadline passed.
            UserError: the retriever refuses its arguments, or names documents that no store can
                have.
        """
        began = time.perf_counter()
        left_out = frozenset(exclude)
        # tokenizers and JSON take no halves of characters
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
    """Return what a function returns, or raise what it raises, in a thread of its own.

    The threads of `asyncio.to_thread` are shared: calls that hang would use them up, and a call
    would queue for one while its deadline runs.
    """
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(context.run(function))
        # whatever it is, it is the caller's to handle
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="docagent-search", daemon=True).start()
    return await asyncio.wrap_future(done)


@dataclass(frozen=True, slots=True)
class EnvServices:
    """The services of an environment. One set serves all trajectories of a process."""

    store: DocumentStore
    retriever: RetrieverService
    judge: Judge
    text_retriever: RetrieverService | None = None
    """Ranks page texts for systems that list images and texts apart; see `second`."""
    roles: Mapping[str, RoleModel] = field(default_factory=dict)
    """Models that play roles beside the policy, by `RoleName`; missing ones are played by embedded
    rules.
    """
    count_tokens: TokenCounter = estimated_tokens
    """Tokens of a text, for systems that keep texts within budgets: by default a cautious
    estimate.
    """
    prompt_tokens: int | None = None
    """Tokens of a prompt at most, for systems that can make theirs fit; `None`: no limit is
    known.
    """

    def second(self) -> RetrieverService:
        """Return the retriever of page texts; raises a `UserError` where there is none."""
        if self.text_retriever is None:
            raise UserError(NO_SECOND_RANKING)
        return self.text_retriever
