"""A retriever of actors (`docagent.retriever.backend: ray`)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.surrogates import encodable
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.retrieval.base import Hit, QueryRefusedError, check_queries
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.failures import NotTakenError, ServerFaultError, ServiceFailedError
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.service.background import in_background
from docagent_rl.retrieval.service.blame import blamed
from docagent_rl.retrieval.service.ray_actor import Outcome
from docagent_rl.retrieval.service.ray_replicas import Replicas
from docagent_rl.retrieval.service.shards import merged
from docagent_rl.retrieval.service.wire import LONGEST_QUERY

_LONGEST = 300


class RayRetriever:
    """Asks actors, once a call; whoever calls tries again.

    A search of one document goes to the shard that has it, one of all documents to all shards, whose hits are
    merged. Of the replicas of a shard each has its turn; where one is gone, the next is asked at once.
    Searches change nothing, so that one which is asked again is none too many.

    Args:
        config: of the retriever.
        store: the documents.
        key: of the section, for messages.

    Raises:
        InfrastructureError, UserError: see `Replicas`.
    """

    def __init__(self, config: RetrieverConfig, store: DocumentStore, key: str) -> None:
        self._store, self._service = store, config.service
        doc_ids = store.doc_ids()
        rows = PageRows(doc_ids, [store.document(doc_id).num_pages for doc_id in doc_ids])
        spans = rows.parts(config.service.shards)
        self._shard_of = {
            doc_id: next(n for n, (start, end) in enumerate(spans) if start <= rows.span(doc_id)[0] < end)
            for doc_id in doc_ids
        }
        self._replicas = Replicas(config, store, key)
        self._told = f"the actors of {key} refuse any query"

    async def asearch(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `AsyncRetriever.asearch`.

        Raises:
            UserError: the store has no such document.
            QueryRefusedError: a query is at fault.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._shard_of:
            self._store.document(doc_id)  # says what there is
        if any(len(query) > LONGEST_QUERY for query in queries):
            raise QueryRefusedError(f"a query of more than {LONGEST_QUERY} characters")
        shards = range(self._service.shards) if doc_id is None else [self._shard_of[doc_id]]
        left_out = [(ref.doc_id, ref.page) for ref in exclude]
        sent = [encodable(query) for query in queries]

        async def ask(each: Sequence[str]) -> list[list[Hit]]:
            arguments = (list(each), doc_id, int(top_k), left_out)
            answers = await asyncio.gather(*(self._ask(shard, arguments) for shard in shards))
            return answers[0] if len(answers) == 1 else merged(answers, top_k)

        return await blamed(ask, sent, refuses_all=self._told)

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """As `asearch`, for threads."""
        return in_background(self.asearch(queries, doc_id=doc_id, top_k=top_k, exclude=exclude))

    async def _ask(self, shard: int, arguments: tuple) -> list[list[Hit]]:
        """Of the first replica that takes it."""
        busy_s = None
        for place, handle in self._replicas.in_turn(shard):
            answer = await self._answer(place, handle, arguments)
            if answer is None:
                continue
            outcome, value = answer
            if outcome is Outcome.FOUND:
                return [[Hit(PageRef(doc, page), score) for doc, page, score in rows] for rows in value]
            if outcome is not Outcome.BUSY:
                raise _error(outcome, value)
            busy_s = value if busy_s is None else min(busy_s, value)
        reason = "is there" if busy_s is None else "has a place"
        raise NotTakenError(f"no actor of shard {shard} {reason}", busy_s)

    async def _answer(
        self, place: tuple[int, int], handle: Any, arguments: tuple
    ) -> tuple[Outcome, Any] | None:
        """Of one actor; None where it is gone."""
        import ray
        from ray.exceptions import ActorDiedError, RayError

        reference = None
        try:
            reference = handle.search.remote(*arguments)
            async with asyncio.timeout(self._service.timeout_s):
                answer = await reference
            if answer[0] is Outcome.LATE:
                self._replicas.late(place, handle)
            return answer
        except TimeoutError:
            self._replicas.late(place, handle)
            ray.cancel(reference)
            raise ServiceFailedError(
                f"an actor gave no answer within {self._service.timeout_s:g} s"
            ) from None
        except ActorDiedError:
            self._replicas.failed(place)
            await asyncio.to_thread(self._replicas.renew, place, handle)
        except RayError:
            self._replicas.failed(place)
        return None


def _error(outcome: Outcome, value: Any) -> Exception:
    match outcome:
        case Outcome.LATE:
            return ServiceFailedError("an actor did not come to it in time")
        case Outcome.REFUSED:
            return QueryRefusedError(str(value))
        case Outcome.BAD_ARGUMENT:
            return UserError(str(value))
        case _:
            return ServerFaultError(str(value)[:_LONGEST])
