"""Queries that bring a page up in the present retriever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.script import content_words
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import EnvServices
from docagent_rl.samples.sample import Sample

_LONGEST_WORD = 24


@dataclass(frozen=True, slots=True)
class Finder:
    """Tries queries, the likeliest of a reader first, until one finds the page.

    A reader would write the question; where the retriever does not find the page by it, words of the page
    itself are added.

    Args:
        services: with the retriever of the environments. Its searches are none of a trajectory.
        shown: new pages that a search shows.
        corpus: searches look through all documents.
    """

    services: EnvServices
    shown: int
    corpus: bool = False

    async def query(
        self, sample: Sample, page: PageRef, *, exclude: Collection[PageRef] = (), skip: int = 0
    ) -> str:
        """The first query that brings the page up, or else the one that ranks it best.

        Args:
            sample: what is asked.
            page: to be found.
            exclude: pages that are known already.
            skip: number of queries, from the likeliest, that were tried.
        """
        best, place = "", None
        store = self.services.store
        # reads all pages of a document once
        candidates = await asyncio.to_thread(lambda: list(_queries(sample, page, store)))
        for query in candidates[min(skip, len(candidates) - 1) :]:
            rank = await self._rank(query, sample, page, exclude)
            if rank is not None and (place is None or rank < place):
                best, place = query, rank
            if place is not None and place < self.shown:
                break
        return best or candidates[-1]

    async def _rank(
        self, query: str, sample: Sample, page: PageRef, exclude: Collection[PageRef]
    ) -> int | None:
        """Among the new pages, from 0."""
        with noting():
            hits = await self.services.retriever.search(
                query,
                doc_id=None if self.corpus else sample.doc_id,
                top_k=self.shown + len(exclude) + 4,
            )
        fresh = [hit.ref for hit in hits if hit.ref not in exclude]
        return fresh.index(page) if page in fresh else None


def _queries(sample: Sample, page: PageRef, store: DocumentStore) -> Iterator[str]:
    own = content_words(sample.question)
    telling = telling_words(store, page)
    yield sample.question
    yield " ".join(own)
    yield " ".join([*own[:4], *telling[:2]])
    yield " ".join(telling[:4]) or sample.question
    yield " ".join(telling[:10]) or sample.question


def telling_words(store: DocumentStore, page: PageRef) -> list[str]:
    """Words of a page that few pages of its document hold, the rarest first."""
    counts = _page_counts(store, page.doc_id)
    words = _words(store.page(page).text())
    return sorted(words, key=lambda word: (counts[word], word))


@lru_cache(maxsize=64)
def _page_counts(store: DocumentStore, doc_id: str) -> Counter[str]:
    """Of how many pages of a document each word is."""
    counts: Counter[str] = Counter()
    for number in range(1, store.document(doc_id).num_pages + 1):
        counts.update(_words(store.page(PageRef(doc_id, number)).text()))
    return counts


def _words(text: str) -> set[str]:
    found = (word.strip(".,;:!?\"'()[]<>{}%$") for word in text.split())
    return {word for word in found if 4 <= len(word) <= _LONGEST_WORD and word.isalnum()}
