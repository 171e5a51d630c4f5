"""How each kind of search server is asked, and what its answers say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, QueryRefusedError
from docagent_rl.retrieval.service import wire


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of one search."""

    queries: tuple[str, ...]
    doc_id: str | None
    top_k: int
    exclude: frozenset[PageRef] = frozenset()

    @property
    def hidden(self) -> int:
        """Pages that an answer may hold in vain."""
        return sum(self.doc_id is None or ref.doc_id == self.doc_id for ref in self.exclude)


@dataclass(frozen=True, slots=True)
class Call:
    """A request of HTTP."""

    method: str
    path: str
    body: bytes | None = None
    params: list[tuple[str, str]] = field(default_factory=list)


class Dialect(Protocol):
    """Of one kind of server."""

    largest_reply: int
    """Bytes."""
    native: bool
    """It keeps to `Retriever.search` itself; otherwise answers are cut to what was asked."""

    def call(self, question: Question) -> Call:
        """The request of a search.

        Raises:
            QueryRefusedError: it cannot be sent.
            InfrastructureError: the server has no such search.
        """
        ...

    def read(self, body: bytes, question: Question) -> list[list[Hit]]:
        """The hits of each query.

        Raises:
            ValueError: the body is no answer; one line says why.
        """
        ...


class NativeDialect:
    """That of `docagent-rl index serve`."""

    largest_reply = 16 << 20
    native = True

    def call(self, question: Question) -> Call:
        """See `Dialect.call`."""
        if any(len(query) > wire.LONGEST_QUERY for query in question.queries):
            raise QueryRefusedError(f"a query of more than {wire.LONGEST_QUERY} characters")
        body = wire.request_body(question.queries, question.doc_id, question.top_k, question.exclude)
        return Call("POST", wire.SEARCH, body)

    def read(self, body: bytes, question: Question) -> list[list[Hit]]:
        """See `Dialect.read`."""
        return wire.read_reply(body)


def kept(
    answer: Sequence[Sequence[Hit]], question: Question, *, native: bool, num_pages: dict[str, int]
) -> list[list[Hit]]:
    """The hits of an answer that was asked for.

    Of a page that comes twice the first hit counts. Servers that know less than `Retriever.search` send pages
    that were not asked for, which are left out; of our own server they are a fault.

    Args:
        answer: of the server.
        question: what was asked.
        native: it is our own.
        num_pages: of each document of the store.

    Raises:
        ValueError: not as many lists as queries, or pages of our own server that nobody asked for.
        InfrastructureError: a page that the store does not have.
    """
    if len(answer) != len(question.queries):
        raise ValueError(f"answers to {len(answer)} queries, and {len(question.queries)} were asked")
    found = []
    for hits in answer:
        distinct = list({hit.ref: hit for hit in reversed(hits)}.values())[::-1]
        good = [hit for hit in distinct if _asked_for(hit.ref, question)]
        if native and (len(good) < len(hits) or len(good) > question.top_k):
            raise ValueError("pages that were not asked for")
        for ref in (hit.ref for hit in good):
            if ref.page > num_pages.get(ref.doc_id, 0):
                raise InfrastructureError(
                    f"the server found {str(ref)[:200]!r}, which the store does not have"
                )
        ranked = sorted(good, key=lambda hit: -hit.score)  # a stable sort: ties stay as they came
        found.append(ranked[: question.top_k])
    return found


def _asked_for(ref: PageRef, question: Question) -> bool:
    return ref not in question.exclude and question.doc_id in (None, ref.doc_id)


def question(
    queries: Sequence[str], doc_id: str | None, top_k: int, exclude: Collection[PageRef]
) -> Question:
    """Arguments of a search, to be kept."""
    return Question(tuple(queries), doc_id, int(top_k), frozenset(exclude))
