"""Vectors of the pages of documents, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import numpy as np
from PIL import Image

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.retrieval.encoders.base import Encoder
from docagent_rl.retrieval.vectors.header import StoredDocument
from docagent_rl.retrieval.vectors.pooling import pooled

EncoderFactory = Callable[[], Encoder]
"""Makes the encoder in the process that uses it; can be pickled for the workers of a cluster."""

BATCH = 8
"""Pages that are encoded together; always of one document, so that they are the same ones on any machine."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What is to be known of an encoder before it works.

    Args:
        content: what of a page it reads.
        dim: of its vectors.
        fingerprint: see `Encoder`.
        spec: what it is opened with again, as JSON.
    """

    content: PageContent
    dim: int
    fingerprint: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PageBatch:
    """Consecutive pages of a document: `first` to `last`, 1-based, both inclusive."""

    doc_id: str
    first: int
    last: int

    def refs(self) -> Iterator[PageRef]:
        """Its pages."""
        return (PageRef(self.doc_id, number) for number in range(self.first, self.last + 1))


@runtime_checkable
class PageVectors(Protocol):
    """Gives the vectors of batches of pages."""

    def facts(self) -> EncoderFacts:
        """Of the encoder."""
        ...

    def run(
        self, store: DocumentStore, batches: Sequence[PageBatch], pool_factor: int
    ) -> Iterator[list[np.ndarray]]:
        """The vectors of each batch's pages, float32 of shape (n, dim), batches in their order."""
        ...


class LocalVectors:
    """Encodes in this process, a batch after the other.

    Args:
        factory: of the encoder.
    """

    def __init__(self, factory: EncoderFactory) -> None:
        self._encoder = factory()

    def facts(self) -> EncoderFacts:
        """See `PageVectors`."""
        return facts_of(self._encoder)

    def run(
        self, store: DocumentStore, batches: Iterable[PageBatch], pool_factor: int
    ) -> Iterator[list[np.ndarray]]:
        """See `PageVectors`."""
        content = self._encoder.content
        for batch in batches:
            yield encoded(self._encoder, batch, contents(store, batch, content), pool_factor)


def facts_of(encoder: Encoder) -> EncoderFacts:
    """What is to be known of an encoder; its `spec`, if any, is a mapping or a pydantic model."""
    spec: Any = getattr(encoder, "spec", {})
    dumped = spec.model_dump(mode="json") if hasattr(spec, "model_dump") else dict(spec)
    return EncoderFacts(encoder.content, encoder.dim, encoder.fingerprint, dumped)


def batches_of(documents: Iterable[StoredDocument]) -> list[PageBatch]:
    """Batches of all pages of documents, in their order."""
    return [
        PageBatch(document.doc_id, first, min(first + BATCH - 1, document.pages))
        for document in documents
        for first in range(1, document.pages + 1, BATCH)
    ]


def contents(store: DocumentStore, batch: PageBatch, content: PageContent) -> list[str] | list[Image.Image]:
    """The texts or pictures of a batch.

    Raises:
        UserError: the store has not these pages any more, or an object is damaged.
    """
    pages = [store.page(ref) for ref in batch.refs()]
    return (
        [page.image() for page in pages] if content is PageContent.IMAGE else [page.text() for page in pages]
    )


def encoded(
    encoder: Encoder, batch: PageBatch, pages: Sequence[str] | Sequence[Image.Image], pool_factor: int
) -> list[np.ndarray]:
    """The vectors of a batch, as they are stored but for rounding.

    Raises:
        InfrastructureError: the encoder cannot read its files, or gives other arrays than promised.
    """
    try:
        found = encoder.encode_pages(pages)
    except OSError as error:
        raise InfrastructureError(f"the encoder failed at {batch.doc_id}: {error}") from error
    if len(found) != len(pages):
        raise InfrastructureError(
            f"the encoder gave vectors of {len(found)} pages for {len(pages)} of {batch.doc_id}"
        )
    for ref, vectors in zip(batch.refs(), found, strict=True):
        if vectors.ndim != 2 or vectors.shape[1] != encoder.dim or not np.isfinite(vectors).all():
            raise InfrastructureError(
                f"page {ref}: the encoder gave an array of shape {vectors.shape}, not finite numbers of "
                f"shape (n, {encoder.dim})"
            )
    return [pooled(np.asarray(vectors, np.float32), pool_factor) for vectors in found]


def pages_by_document(
    batches: Iterable[PageBatch], vectors: Iterable[list[np.ndarray]]
) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """The pages of each document, one after the other."""
    pairs = zip(batches, vectors, strict=True)
    for doc_id, group in groupby(pairs, key=lambda pair: pair[0].doc_id):
        yield doc_id, (page for _, pages in group for page in pages)


def check_facts(facts: EncoderFacts, found: EncoderFacts, where: str) -> None:
    """See that a worker has the same encoder.

    Raises:
        UserError: it has another one.
    """
    if facts.fingerprint != found.fingerprint:
        raise UserError(
            f"{where} opens another model under the name of the encoder (fingerprint "
            f"{found.fingerprint[:12]}, not {facts.fingerprint[:12]}): give all nodes the same weights"
        )
