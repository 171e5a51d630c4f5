"""The interface of every retriever, and pages as rows of arrays."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.text import composed
from docagent_rl.documents import PageRef
from docagent_rl.documents.references import unknown_document

Pages = Collection[PageRef]
"""Pages that a search leaves out."""


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The place of a page among the candidates that a reranker was given."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a retriever found."""

    ref: PageRef
    score: float
    """The higher, the better; comparable within the answer to one query only."""
    first_stage: FirstStage | None = None
    """Before it was reranked; None: it was not, or elsewhere."""


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """Arguments of one search, to be kept; they are those of `Retriever.search`."""

    queries: tuple[str, ...]
    doc_id: str | None = None
    top_k: int = 1
    exclude: frozenset[PageRef] = frozenset()


class StaleIndexError(UserError):
    """An index is not of the store as it is: of another one, or of an earlier state of it."""


class QueryRefusedError(Exception):
    """A service understood a query and will not serve it: too long, characters that it does not
    take.

    The query is at fault, and asking again changes nothing. For a policy that means a search
    without hits (`envs.services.RetrieverService`), never a trajectory that does not count.
    """


class ServiceFailedError(InfrastructureError):
    """One try of a search at a service: begun and not brought to an end, or answered with nonsense.

    Whoever can wait tries again.
    """


class NotTakenError(ServiceFailedError):
    """A service did not take a search: it is busy, starting again, or cannot be reached.

    It may ask to wait for some seconds.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ServerFaultError(ServiceFailedError):
    """An error inside a service: its own fault, or that of what it was asked."""


class Retriever(Protocol):
    """Ranks pages for queries. Implementations may be called from several threads at once."""

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Return the best pages for each query.

        Args:
            queries: Any number of queries, answered in one batch.
            doc_id: Search this document only; by default all documents.
            top_k: Number of pages for a query at most.
            exclude: Pages to leave out. Others take their place: a query gets `top_k` hits whenever
                that many other pages match.

        Returns:
            One list for each query, best first; equal scores in the order of `PageRef`. An empty or
            blank query has no hits.

        Raises:
            UserError: `doc_id` is unknown or `top_k` is less than 1.
            QueryRefusedError: A remote retriever does not take a query.
            InfrastructureError: A remote retriever does not answer.
        """
        ...


@runtime_checkable
class AsyncRetriever(Protocol):
    """A `Retriever` that waits for others: it is awaited, without a thread for each search."""

    async def asearch(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Search as `Retriever.search`, once: the caller tries again.

        Raises:
            NotTakenError, ServiceFailedError: this try has failed.
        """
        ...


def check_queries(queries: Sequence[str], top_k: int) -> None:
    """Check arguments of `Retriever.search`.

    Raises:
        UserError: `top_k` is not a whole number from 1.
        TypeError: `queries` is one string, or holds something else than strings.
    """
    if isinstance(top_k, bool) or not isinstance(top_k, int | np.integer) or top_k < 1:
        raise UserError(f"top_k={top_k!r}: expected a whole number of pages, at least 1")
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise TypeError("queries must be a sequence of strings")


def best_hits(hits: Iterable[Hit], top_k: int) -> list[Hit]:
    """Return the hits with the highest scores; equal ones in the order of `PageRef`."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.ref))[:top_k]


def top_rows(scores: np.ndarray, top_k: int, above: float = 0.0) -> np.ndarray:
    """Return at most `top_k` rows with the highest scores of those above a bound, shape (m,).

    Rows come by descending score, equal scores by ascending row; `scores` has one a row, shape
    (n,).
    """
    rows = np.flatnonzero(scores > above)
    if len(rows) > top_k:
        # the rows with the score of the last one that is wanted stay, too: the first of them is
        # taken
        least = np.partition(scores[rows], len(rows) - top_k)[len(rows) - top_k]
        rows = rows[scores[rows] >= least]
    return rows[np.argsort(-scores[rows], kind="stable")[:top_k]]


class PageRows:
    """The rows of pages: the documents one after the other, sorted by id, each in page order."""

    def __init__(self, doc_ids: Sequence[str], num_pages: Sequence[int]) -> None:
        self.doc_ids = tuple(doc_ids)
        self.num_pages = tuple(num_pages)
        self._positions = {doc_id: position for position, doc_id in enumerate(self.doc_ids)}
        # rows of document i: starts[i] to starts[i + 1]
        self._starts = np.concatenate([[0], np.cumsum(self.num_pages)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def span(self, doc_id: str | None) -> tuple[int, int]:
        """Return the first row of a document and the one behind its last; None: of all documents.

        Raises:
            UserError: there is no such document.
        """
        if doc_id is None:
            return 0, len(self)
        position = self._positions.get(composed(doc_id))
        if position is None:
            raise unknown_document(doc_id, self.doc_ids, "the index")
        return int(self._starts[position]), int(self._starts[position + 1])

    def rows(self, refs: Collection[PageRef]) -> np.ndarray:
        """Return rows of pages, int64; unknown ones are left out."""
        rows = [
            self._starts[position] + ref.page - 1
            for ref in refs
            if (position := self._positions.get(ref.doc_id)) is not None
            and ref.page <= self.num_pages[position]
        ]
        return np.asarray(rows, dtype=np.int64)

    def ref(self, row: int) -> PageRef:
        """Return the page of a row."""
        position = int(np.searchsorted(self._starts, row, side="right")) - 1
        return PageRef(self.doc_ids[position], int(row - self._starts[position]) + 1)
