"""Searches that help a teacher: gold pages first, or candidates in any order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from dataclasses import dataclass, field, fields

from docagent_rl.documents import PageRef
from docagent_rl.envs.services import RetrieverService
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit


class Shuffle:
    """Permutations from a shuffled pool of all, refilled when it is empty, so that each comes equally often
    (UniDoc-RL: the index of the right candidate must not be a habit).

    Args:
        size: of what is shuffled.
        seed: of the order.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._rng = random.Random(seed)
        self._pool: list[tuple[int, ...]] = []

    def __call__(self, hits: list[Hit]) -> list[Hit]:
        """The hits with the first so many in another order; fewer hits take what of it concerns them."""
        if not self._pool:
            self._pool = list(itertools.permutations(range(self._size)))
            self._rng.shuffle(self._pool)
        order = [place for place in self._pool.pop() if place < len(hits)]
        return [*(hits[place] for place in order), *hits[self._size :]]


@dataclass(frozen=True, slots=True)
class HelpedRetriever(RetrieverService):
    """The retriever of one session. What it found is noted as it was; what is shown first changes.

    Args:
        gold: pages that come first.
        shuffle: of what comes first.
    """

    gold: frozenset[PageRef] = frozenset()
    shuffle: Shuffle | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, service: RetrieverService, sample: Record, *, guided: bool, shuffle: Shuffle | None
    ) -> HelpedRetriever:
        """Over the retriever of the environments.

        Args:
            service: it.
            sample: the question.
            guided: gold pages come first (VRAG-RL's released collection).
            shuffle: of what comes first.
        """
        pages = sample.gold_pages if guided else ()
        gold = frozenset(PageRef(doc_id, page) for doc_id, page in pages)
        shared = {each.name: getattr(service, each.name) for each in fields(RetrieverService) if each.init}
        helped = cls(**shared, gold=gold, shuffle=shuffle)
        # the limit of searches at a time and what is known hold for all sessions together
        for name in (each.name for each in fields(RetrieverService) if not each.init):
            object.__setattr__(helped, name, getattr(service, name))
        return helped

    async def search(
        self, query: str, *, doc_id: str | None, top_k: int, exclude: Collection[PageRef] = ()
    ) -> list[Hit]:
        """See `RetrieverService`."""
        hits = await RetrieverService.search(self, query, doc_id=doc_id, top_k=top_k, exclude=exclude)
        hits = sorted(hits, key=lambda hit: hit.ref not in self.gold)
        return hits if self.shuffle is None else self.shuffle(hits)
