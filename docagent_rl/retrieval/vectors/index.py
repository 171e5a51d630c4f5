"""Embedded indexes of vectors: their header, opening and searching them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.retrieval.base import Hit, PageRows, Pages, StaleIndexError, top_rows
from docagent_rl.retrieval.encoders.facts import EncoderFacts
from docagent_rl.retrieval.index_files import IndexFiles, IndexHeader, Sha256, update_hint
from docagent_rl.retrieval.vectors.bank import NO_SCORE, Bank, open_bank, page_scores
from docagent_rl.retrieval.vectors.binary import Signs, num_candidates, open_signs
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm


class VectorKind(StrEnum):
    """Kinds of indexes, by what has a vector."""

    DENSE = "dense"
    """Each page, or each passage of a page."""
    LATE_INTERACTION = "late_interaction"
    """Each token or patch."""


class StoredDocument(BaseModel):
    """An indexed document, in the state in which its pages were encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    doc_id: str = Field(min_length=1)
    pages: int = Field(ge=1)
    digest: Sha256
    """SHA-256 of its `Document.digests`."""


class SourceHeader(IndexHeader):
    """The header of an index of vectors, embedded or in an engine."""

    kind: VectorKind
    encoder: Sha256
    """Fingerprint of the encoder."""
    content: PageContent
    dim: int = Field(ge=1, le=65_536)
    spec: dict[str, JsonValue]
    """Specification with which the encoder can be opened (`docagent_rl.retrieval.encoders`)."""
    form: VectorForm = VectorForm()
    """Form of the stored vectors."""
    documents: tuple[StoredDocument, ...] = ()
    """Indexed documents, sorted by id."""

    @classmethod
    def of(
        cls, store: DocumentStore, facts: EncoderFacts, kind: VectorKind, **others: object
    ) -> Self:
        """Return the header for the current documents of a store and an encoder.

        Raises:
            UserError: The store is empty.
        """
        documents = tuple(stored_documents(store, facts.content))
        if not documents:
            raise UserError(f"{store.path} contains no documents: ingest some first")
        fields = {name: getattr(facts, name) for name in ("content", "dim", "spec")}
        found = {
            "kind": kind,
            "encoder": facts.fingerprint,
            "documents": documents,
            **fields,
            **others,
        }
        return cls.model_validate(found)

    @property
    def source(self) -> tuple[str, str, str, int, str]:
        """The origin of the vectors: kind, encoder, content, dim and form.

        Vectors of the same origin can be compared.
        """
        return (
            self.kind.value,
            self.encoder,
            self.content.value,
            self.dim,
            self.form.model_dump_json(),
        )

    @property
    def num_pages(self) -> int:
        """Number of pages, including those without vectors."""
        return sum(document.pages for document in self.documents)

    def changed(self, store: DocumentStore) -> list[str]:
        """Return the documents that were added, removed or changed in a store since the build."""
        before = {document.doc_id: document for document in self.documents}
        now = {document.doc_id: document for document in stored_documents(store, self.content)}
        return sorted(doc_id for doc_id in before | now if before.get(doc_id) != now.get(doc_id))

    def info(self, blank: int) -> dict[str, object]:
        """Return counts and the model, by readable names; `blank` pages have no vectors."""
        counts = {
            "documents": len(self.documents),
            "pages": self.num_pages,
            "pages without vectors": blank,
        }
        made = {
            "dimensions": self.dim,
            "content": self.content.value,
            **self.form.model_dump(mode="json"),
        }
        return {
            "kind": self.kind.value,
            **counts,
            **made,
            "encoder": self.encoder,
            "spec": self.spec,
        }


class VectorHeader(SourceHeader):
    """The header of an embedded index, whose arrays are those of a `Bank` in the order of pages."""

    schema_version: Literal[5] = 5


def stored_documents(store: DocumentStore, content: PageContent) -> Iterator[StoredDocument]:
    """Yield the current documents of a store, sorted by id.

    Raises:
        UserError: A manifest is damaged.
    """
    for doc_id in store.doc_ids():
        document = store.document(doc_id)
        digest = hashlib.sha256(" ".join(document.digests(content)).encode()).hexdigest()
        yield StoredDocument(doc_id=doc_id, pages=document.num_pages, digest=digest)


class VectorIndex:
    """An embedded index of vectors, mapped into memory. Any number of threads may search it."""

    def __init__(
        self, files: IndexFiles, header: VectorHeader, bank: Bank, signs: Signs | None = None
    ) -> None:
        self.path = files.root
        self.header = header
        self.bank = bank
        """The vectors; if they are moved to a device (`Bank.to`), it scores them."""
        self.signs = signs
        """The signs of the vectors, only for binary indexes."""
        self.rows = PageRows(
            [d.doc_id for d in header.documents], [d.pages for d in header.documents]
        )

    @classmethod
    def open(cls, path: str | Path) -> VectorIndex:
        """Open an index after verifying every file, which takes about a second for 1 to 2 GB.

        Raises:
            UserError: There is no index, or it is damaged or of another version.
        """
        return IndexFiles(Path(path)).read(cls._load)

    @classmethod
    def _load(cls, data: bytes, files: IndexFiles) -> VectorIndex:
        header = files.parse(VectorHeader, data)
        folder = files.verified_folder(header.files)
        try:
            bank = open_bank(folder)
            precision = header.form.precision
            if bank.precision is not precision.stored:
                raise ValueError(f"vectors of {bank.precision.value}, not {precision.stored.value}")
            signs = open_signs(folder, bank) if precision is Precision.BINARY else None
            return cls(files, header, bank, signs)
        except (OSError, ValueError) as error:
            raise files.damaged(folder, str(error)) from error

    def check(self, store: DocumentStore) -> None:
        """Check that a store still contains the indexed pages.

        Raises:
            StaleIndexError: It does not; the message names a document that differs.
        """
        if changed := self.header.changed(store):
            raise StaleIndexError(
                f"the index {self.path} does not match {store.path} as it is now: {len(changed)} "
                "documents were added, removed, ingested again or described, such as "
                f"{changed[0]!r}: {update_hint(self.path, store.path)} (pages that are in it are "
                "not encoded again)"
            )

    def info(self) -> dict[str, object]:
        """Return counts, sizes and the model, by readable names."""
        blank = int((np.diff(self.bank.offsets) == 0).sum())
        size = sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
        return {**self.header.info(blank), "vectors": len(self.bank.vectors), "bytes": size}

    def scores(self, queries: Sequence[np.ndarray], doc_id: str | None = None) -> np.ndarray:
        """Return exact scores of a document's pages, or of all pages, in the order of `PageRef`.

        Queries are float32 of shape (t, dim) each, the scores float32 of shape (queries, pages).

        Raises:
            UserError: There is no such document.
        """
        return page_scores(self.bank, queries, *self.rows.span(doc_id))

    def rank(
        self, queries: Sequence[np.ndarray], *, doc_id: str | None, top_k: int, exclude: Pages
    ) -> list[list[Hit]]:
        """Return the best pages for each query, by exact scores; see `Retriever.search`.

        A binary index only scores the `num_candidates` best pages by their signs, and may miss
        others; if there are no more pages than that, it scores all.
        """
        start, end = self.rows.span(doc_id)
        excluded = self.rows.rows(exclude)
        # few pages are scored exactly at once; of many, only the best by their signs
        first_pass = self.signs if end - start > num_candidates(top_k) else None
        if first_pass:
            scores = first_pass.scores(queries, start, end)
        else:
            scores = self.scores(queries, doc_id)
        scores[:, excluded[(excluded >= start) & (excluded < end)] - start] = NO_SCORE
        if first_pass:
            for query, of_query in zip(queries, scores, strict=True):
                self._rescore(query, of_query, start, num_candidates(top_k))

        ranked = []
        for of_query in scores:
            best = top_rows(of_query, top_k, NO_SCORE)
            ranked.append([Hit(self.rows.ref(start + row), float(of_query[row])) for row in best])
        return ranked

    def _rescore(self, query: np.ndarray, found: np.ndarray, start: int, count: int) -> None:
        """Replace the `count` best first scores by exact scores, and all others by `NO_SCORE`.

        `found` contains the first scores of the pages from row `start` on, shape (pages,).
        """
        rows = top_rows(found, count, NO_SCORE)
        found[:] = NO_SCORE
        if len(rows):
            # read the pages in the order in which they are on disk
            rows.sort()
            (found[rows],) = page_scores(self.bank.chosen(start + rows), [query])
