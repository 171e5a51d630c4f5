"""The interface of every engine, and the file that names a collection.

An index of an engine is a folder with a header: where the collection is, and what made the vectors. The pages
are in the collection, and so are records of its documents, each written after all its pages: a document
without a record is encoded again, so that a build that was killed goes on.
"""

from __future__ import annotations

from collections.abc import Collection as Many
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from pydantic import Field, JsonValue

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, ServerFaultError, ServiceFailedError
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.index_files import IndexHeader
from docagent_rl.retrieval.vectors.index import Kind, Source, StoredDocument

Engine = Literal[SearchEngine.QDRANT, SearchEngine.LANCEDB]


class CollectionHeader(IndexHeader):
    """The header of an index whose pages are in a collection of an engine."""

    schema_version: Literal[4] = 4
    kind: Kind
    engine: Engine
    url: str | None = None
    """Place of the collection; None: in the folder of the index."""
    collection: Annotated[str, Field(pattern=r"^[\w.-]{1,128}$")]
    """Its name."""
    token_env: str | None = None
    """Name of the variable that holds the token of its server."""
    source: Source
    """Origin of the vectors; they are rounded to bfloat16, as those of embedded indexes are."""
    spec: dict[str, JsonValue]
    """Specification with which the encoder is opened again (`docagent_rl.retrieval.encoders`)."""


@dataclass(frozen=True, slots=True)
class VectorPage:
    """A page to be stored.

    Args:
        ref: the page.
        digest: of its document (`StoredDocument.digest`).
        vectors: float32 of shape (n, dim), n >= 1.
    """

    ref: PageRef
    digest: str
    vectors: np.ndarray


@dataclass(frozen=True, slots=True)
class HeldDocument:
    """The record of a document whose pages are all there; `filled` of them have vectors."""

    document: StoredDocument
    filled: int


@dataclass(frozen=True, slots=True)
class Asked:
    """One search.

    Args:
        query: float32 of shape (t, dim), rounded to bfloat16.
        doc_id: search this document only.
        top_k: pages at most.
        exclude: pages to leave out.
        candidates: pages that a search over all documents scores exactly.
    """

    query: np.ndarray
    doc_id: str | None
    top_k: int
    exclude: frozenset[PageRef]
    candidates: int


class Collection(Protocol):
    """Pages of vectors in an engine. Searches may come from several threads at once; there is one writer."""

    def exists(self) -> bool:
        """Return whether it was made."""
        ...

    def create(self) -> None:
        """Make it, empty; one that is there is removed first."""
        ...

    def documents(self) -> Iterator[HeldDocument]:
        """Yield the records of documents, in any order."""
        ...

    def pages(self) -> Iterator[tuple[PageRef, str]]:
        """Yield all pages with the digests of their documents, in any order."""
        ...

    def count(self) -> int:
        """Return the number of pages, those of unfinished documents included."""
        ...

    def add(self, pages: Sequence[VectorPage]) -> None:
        """Store pages."""
        ...

    def record(self, documents: Sequence[HeldDocument]) -> None:
        """Store the records of documents whose pages are stored."""
        ...

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove the records of documents, then their pages; unknown ones are ignored."""
        ...

    def finish(self) -> None:
        """Bring what makes searches fast up to date; called after changes."""
        ...

    def search(self, asked: Asked) -> list[Hit]:
        """Return the best pages, in any order: exact ones of a document, of all documents as far as the
        engine's first stage finds them; scores are exact in both cases.

        Raises:
            NotTakenError, ServiceFailedError: the engine is not there, or fails.
        """
        ...

    def facts(self) -> Mapping[str, JsonValue]:
        """Return facts for people."""
        ...

    def close(self) -> None:
        """Release its files and connections; the next use opens them again."""
        ...


def differences(collection: Collection, documents: Iterable[HeldDocument]) -> Iterator[tuple[str, str]]:
    """Yield each document whose stored pages are not those of its record, with the problem."""
    held = {each.document.doc_id: each for each in documents}
    found: dict[str, set[int]] = {doc_id: set() for doc_id in held}
    for ref, digest in collection.pages():
        if ref.doc_id not in held:
            yield ref.doc_id, f"page {ref.page} belongs to no document that is whole"
        elif digest != held[ref.doc_id].document.digest:
            yield ref.doc_id, f"page {ref.page} is of another version of the document"
        else:
            found[ref.doc_id].add(ref.page)
    for doc_id, pages in found.items():
        if len(pages) != held[doc_id].filled:
            yield doc_id, f"{len(pages)} of its {held[doc_id].filled} pages with vectors are there"


def split(names: Many[str], size: int) -> Iterator[list[str]]:
    """Yield names in lists of a size at most."""
    ordered = sorted(names)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


@contextmanager
def answering(engine: str) -> Generator[None]:
    """Turn errors of an engine in this process into those of a search.

    Raises:
        ServerFaultError: it fails.
    """
    try:
        yield
    except (UserError, InfrastructureError, ServiceFailedError):
        raise
    except Exception as error:  # packages of engines have no class of their own
        raise ServerFaultError(f"{engine} fails: {error}") from error
