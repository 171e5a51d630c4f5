"""The services that environments share: documents, retrieval, judging."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.roles import RoleModel
from docagent_rl.envs.token_budget import TokenCounter, estimated_tokens
from docagent_rl.retrieval import Hit, Retriever
from docagent_rl.retrying import call_service
from docagent_rl.rewards.judge import Judge


@dataclass(frozen=True, slots=True)
class RetrieverService:
    """Asks a retriever without holding up the event loop.

    Args:
        retriever: the retriever; its calls run in threads.
        attempts: calls for one search at most. Failures of the system (`OSError`, so connections and
            timeouts too) are tried again; a retriever's own `InfrastructureError` is final.
        deadline_s: seconds for one search. A call that hangs for longer is given up, but its thread cannot be
            stopped: retrievers that talk to servers need timeouts of their own.
        backoff_s: seconds before the second attempt; doubles.
    """

    retriever: Retriever
    attempts: int = 3
    deadline_s: float = 60.0
    backoff_s: float = 0.5

    async def search(
        self, query: str, *, doc_id: str | None, top_k: int, exclude: Collection[PageRef] = ()
    ) -> list[Hit]:
        """The best pages for one query (see `Retriever.search`).

        Raises:
            InfrastructureError: the retriever failed after its attempts, or the deadline passed.
            UserError: the retriever refuses its arguments.
        """
        hits = await call_service(
            lambda: asyncio.to_thread(
                self.retriever.search, [query], doc_id=doc_id, top_k=top_k, exclude=exclude
            ),
            what="retriever",
            attempts=self.attempts,
            deadline_s=self.deadline_s,
            backoff_s=self.backoff_s,
            retry_on=(OSError,),
        )
        return hits[0]


@dataclass(frozen=True, slots=True)
class EnvServices:
    """What an environment needs besides its configuration. One set serves all sessions of a process."""

    store: DocumentStore
    retriever: RetrieverService
    judge: Judge
    text_retriever: RetrieverService | None = None
    """Searches page text for systems that list images and text apart; `None`: `retriever` serves both."""
    roles: Mapping[str, RoleModel] = field(default_factory=dict)
    """Models that play roles beside the policy, by `RoleName`; missing ones are played by embedded rules."""
    count_tokens: TokenCounter = estimated_tokens
    """Tokens of a text, for systems that keep texts within budgets: by default a cautious estimate."""
