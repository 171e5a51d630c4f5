"""A collection of Qdrant: a point a page, with all its vectors, and a point without vectors a document.

Qdrant scores by MaxSim itself. Of late interaction each point has its vectors twice: whole, and joined 8 to
one (`first`), of which a graph is made. A search over all documents takes its candidates from the graph and
has them scored by the whole vectors; a search of one document has all its pages scored.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from pydantic import JsonValue

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.engines.collection import Asked, HeldDocument, VectorPage, split
from docagent_rl.retrieval.vectors.index import Kind, Source, StoredDocument

WHOLE, FIRST = "whole", "first"
"""Names of the vectors of a point."""
JOINED = 8
"""Neighbouring vectors that are one in the first stage."""
_NAMES = uuid.uuid5(uuid.NAMESPACE_DNS, "docagent-rl")
_DOCUMENTS_AT_A_TIME = 200
_NUMBERS_AT_A_TIME = 1 << 19
"""Of one request: some 8 MB as JSON, a quarter of what a server takes."""


class Record(StrEnum):
    """Kinds of points."""

    PAGE = "page"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class Point:
    """A point; `vectors` are float32 of shape (n, dim) by name."""

    key: str
    vectors: Mapping[str, np.ndarray]
    payload: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Points of a kind: of some documents (none named: of all), but for those with these keys."""

    record: Record
    doc_ids: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Vectors of the points: whole ones, and whether those of the first stage are apart."""

    dim: int
    late: bool

    @property
    def first(self) -> str:
        """The vectors that the graph is made of."""
        return FIRST if self.late else WHOLE


@dataclass(frozen=True, slots=True)
class Nearest:
    """A query; `candidates` come from the first stage, None: all chosen points are scored."""

    query: np.ndarray
    chosen: Chosen
    limit: int
    candidates: int | None


class Points(Protocol):
    """The points of a collection, at a server or in files."""

    def exists(self) -> bool:
        """Return whether the collection was made."""
        ...

    def create(self) -> None:
        """Make it, in the place of one that is there."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Store points, in the place of those with the same keys."""
        ...

    def delete(self, chosen: Chosen) -> None:
        """Remove points."""
        ...

    def payloads(self, chosen: Chosen) -> Iterator[Mapping[str, Any]]:
        """Yield payloads of points."""
        ...

    def count(self, chosen: Chosen) -> int:
        """Return the exact number of points."""
        ...

    def nearest(self, asked: Nearest) -> list[tuple[Mapping[str, Any], float]]:
        """Return the payloads and scores of the best points."""
        ...

    def finish(self) -> None:
        """Bring the graph up to date, where that does not come by itself."""
        ...

    def facts(self) -> Mapping[str, JsonValue]:
        """Return facts for people."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class QdrantCollection:
    """A `Collection` of points."""

    def __init__(self, points: Points, source: Source) -> None:
        self._points, self._source = points, source
        self._late = source.kind is Kind.LATE_INTERACTION

    def exists(self) -> bool:
        """See `Collection`."""
        return self._points.exists()

    def create(self) -> None:
        """See `Collection`."""
        self._points.create()

    def documents(self) -> Iterator[HeldDocument]:
        """See `Collection`."""
        for payload in self._points.payloads(Chosen(Record.DOCUMENT)):
            document = StoredDocument(doc_id=payload["doc"], pages=payload["pages"], digest=payload["digest"])
            yield HeldDocument(document, payload["filled"])

    def pages(self) -> Iterator[tuple[PageRef, str]]:
        """See `Collection`."""
        for payload in self._points.payloads(Chosen(Record.PAGE)):
            yield PageRef(payload["doc"], payload["page"]), payload["digest"]

    def count(self) -> int:
        """See `Collection`."""
        return self._points.count(Chosen(Record.PAGE))

    def add(self, pages: Sequence[VectorPage]) -> None:
        """See `Collection`."""
        waiting: list[Point] = []
        for page in pages:
            waiting.append(self._point(page))
            if (
                sum(vectors.size for point in waiting for vectors in point.vectors.values())
                > _NUMBERS_AT_A_TIME
            ):
                self._points.upsert(waiting)
                waiting = []
        if waiting:
            self._points.upsert(waiting)

    def _point(self, page: VectorPage) -> Point:
        vectors = {WHOLE: page.vectors}
        if self._late:
            vectors[FIRST] = joined(page.vectors)
        payload = {
            "record": Record.PAGE.value,
            "doc": page.ref.doc_id,
            "page": page.ref.page,
            "digest": page.digest,
        }
        return Point(_key(page.ref), vectors, payload)

    def record(self, documents: Sequence[HeldDocument]) -> None:
        """See `Collection`."""
        points = []
        for held in documents:
            document = held.document
            payload = {
                "record": Record.DOCUMENT.value,
                "doc": document.doc_id,
                "pages": document.pages,
                "filled": held.filled,
                "digest": document.digest,
            }
            points.append(Point(str(uuid.uuid5(_NAMES, document.doc_id)), {}, payload))
        for start in range(0, len(points), _DOCUMENTS_AT_A_TIME):
            self._points.upsert(points[start : start + _DOCUMENTS_AT_A_TIME])

    def remove(self, doc_ids: Sequence[str]) -> None:
        """See `Collection`."""
        for some in split(doc_ids, _DOCUMENTS_AT_A_TIME):
            self._points.delete(Chosen(Record.DOCUMENT, tuple(some)))
            self._points.delete(Chosen(Record.PAGE, tuple(some)))

    def search(self, asked: Asked) -> list[Hit]:
        """See `Collection`."""
        excluded = tuple(_key(ref) for ref in sorted(asked.exclude) if asked.doc_id in (None, ref.doc_id))
        doc_ids = () if asked.doc_id is None else (asked.doc_id,)
        found = self._points.nearest(
            Nearest(
                asked.query,
                Chosen(Record.PAGE, doc_ids, excluded),
                limit=asked.top_k,
                candidates=max(asked.top_k, asked.candidates) if asked.doc_id is None else None,
            )
        )
        return [Hit(PageRef(payload["doc"], payload["page"]), score) for payload, score in found]

    def finish(self) -> None:
        """See `Collection`."""
        self._points.finish()

    def facts(self) -> Mapping[str, JsonValue]:
        """See `Collection`."""
        return self._points.facts()

    def close(self) -> None:
        """See `Collection`."""
        self._points.close()


def joined(vectors: np.ndarray, size: int = JOINED) -> np.ndarray:
    """Return the means of runs of about `size` vectors, of length 1: float32 (n, dim) becomes (m, dim)."""
    runs = np.array_split(vectors, max(1, round(len(vectors) / size)))
    means = np.stack([run.mean(0) for run in runs])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return means / np.where(lengths > 0, lengths, 1)


def _key(ref: PageRef) -> str:
    return str(uuid.uuid5(_NAMES, f"{ref.doc_id}\n{ref.page}"))
