"""The interface of retrievers, and the mapping of pages to rows of arrays."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import composed
from docagent_rl.documents import PageRef
from docagent_rl.documents.references import unknown_document

Pages = Collection[PageRef]
"""Pages to leave out of a search."""


@dataclass(frozen=True, slots=True)
class FirstStage:
    """Rank and score of a page before reranking."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a retriever found."""

    ref: PageRef
    score: float
    """Higher is better; only comparable within the hits of one query."""
    first_stage: FirstStage | None = None
    """Rank and score before reranking; None if it was not reranked, or not in this process."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """The arguments of one call of `Retriever.search`; hashable."""

    queries: tuple[str, ...]
    doc_id: str | None = None
    top_k: int = 1
    exclude: frozenset[PageRef] = frozenset()


class StaleIndexError(UserError):
    """An index does not match the store: it was built from another one, or an earlier state."""


class QueryRefusedError(Exception):
    """A service understood a query but refuses it, for its length or its characters.

    The query is at fault, and retrying is pointless. For a policy, it is a search without hits
    (`envs.services.RetrieverService`); the trajectory is never masked for it.
    """


class ServiceFailedError(InfrastructureError):
    """An attempt to search at a service was not completed, or the response was invalid.

    Callers that can wait should retry.
    """


class NotTakenError(ServiceFailedError):
    """A service did not accept a search: it is busy, restarting or cannot be reached.

    It may ask to wait for `retry_after_s` seconds.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerFaultError(ServiceFailedError):
    """An error occurred inside a service: due to the service itself, or to the query."""


class Retriever(Protocol):
    """A ranker of pages. Implementations must be thread-safe."""

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Return the best pages for each query.

        Args:
            queries: Any number of queries, processed in one batch.
            doc_id: Search only this document; by default all documents.
            top_k: Maximum number of pages per query.
            exclude: Pages to leave out. They do not count: a query gets `top_k` hits if that many
                other pages match.

        Returns:
            One list per query, best hits first; equal scores in the order of `PageRef`. An empty or
            blank query has no hits.

        Raises:
            UserError: `doc_id` is unknown or `top_k` is less than 1.
            QueryRefusedError: A remote retriever refuses a query.
            InfrastructureError: A remote retriever does not respond.
        """
        ...


@runtime_checkable
class AsyncRetriever(Protocol):
    """A `Retriever` that searches elsewhere and can be awaited, without a thread per search."""

    async def asearch(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Make one attempt of a search as in `Retriever.search`; retries are up to the caller.

        Raises:
            NotTakenError, ServiceFailedError: This attempt has failed.
        """
        ...


def check_queries(queries: Sequence[str], top_k: int) -> None:
    """Check the arguments of `Retriever.search`.

    Raises:
        UserError: `top_k` is not a whole number of at least 1.
        TypeError: `queries` is a single string, or contains something other than strings.
    """
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise UserError(f"top_k={top_k!r}: expected a whole number of pages, at least 1")
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise TypeError("queries must be a sequence of strings")


def best_hits(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Return the hits with the highest scores; equal ones in the order of `PageRef`."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.ref))[:top_k]


def top_rows(scores: np.ndarray, top_k: int, above: float = 0.0) -> np.ndarray:
    """Return the at most `top_k` rows with the highest scores above a bound, shape (m,).

    Rows are sorted by descending score, and equal scores by ascending row; `scores` has shape (n,).
    """
    rows = np.flatnonzero(scores > above)
    if len(rows) > top_k:
        # keep all rows that tie with the last one, so that the sort picks the first of them
        least = np.partition(scores[rows], len(rows) - top_k)[len(rows) - top_k]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")[:top_k]]


class PageRows:
    """A mapping of pages to rows: documents sorted by id, and each document's pages in order."""

    def __init__(self, doc_ids: Sequence[str], num_pages: Sequence[int]) -> None:
        self.doc_ids = tuple(doc_ids)
        self.num_pages = tuple(num_pages)
        self._positions = {doc_id: position for position, doc_id in enumerate(self.doc_ids)}
        # rows of document i: starts[i] to starts[i + 1]
        self._starts = np.concatenate([[0], np.cumsum(self.num_pages)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def span(self, doc_id: str | None) -> tuple[int, int]:
        """Return the range of rows (end exclusive) of a document, or of all documents for None.

        Raises:
            UserError: There is no such document.
        """
        if doc_id is None:
            return 0, len(self)
        position = self._positions.get(composed(doc_id))
        if position is None:
            raise unknown_document(doc_id, self.doc_ids, "the index")
        return int(self._starts[position]), int(self._starts[position + 1])

    def rows(self, refs: Collection[PageRef]) -> np.ndarray:
        """Return the rows of pages, int64, without unknown pages."""
        rows = [
            self._starts[position] + ref.page - 1
            for ref in refs
            if (position := self._positions.get(ref.doc_id)) is not None
            and ref.page <= self.num_pages[position]
        ]
        return np.asarray(rows, dtype=np.int64)

    def ref(self, row: int) -> PageRef:
        """Return the page in a row."""
        position = int(np.searchsorted(self._starts, row, side="right")) - 1
        return PageRef(self.doc_ids[position], int(row - self._starts[position]) + 1)
