"""The header of an index of vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.retrieval.index_files import IndexHeader, Sha256
from docagent_rl.retrieval.vectors.bank import Precision


class Kind(StrEnum):
    """What a vector stands for."""

    DENSE = "dense"
    """A page, or a passage of one."""
    LATE_INTERACTION = "late_interaction"
    """A token or a patch."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VectorSettings(_Frozen):
    """How vectors are stored."""

    precision: Precision = Precision.BFLOAT16
    pool_factor: int = Field(1, ge=1, le=1024)
    """Similar vectors of a page are joined until one in so many is left; 1: none are."""


class Source(_Frozen):
    """What vectors were made by; those of equal sources may be compared."""

    kind: Kind
    encoder: Sha256
    """The encoder's fingerprint."""
    content: PageContent
    dim: int = Field(ge=1, le=65_536)
    settings: VectorSettings = VectorSettings()

    @model_validator(mode="after")
    def _sound(self) -> Source:
        if self.kind is Kind.DENSE and self.settings.pool_factor > 1:
            raise ValueError("pool_factor joins vectors of tokens, and dense ones are of pages")
        return self


class StoredDocument(_Frozen):
    """A document as it was when its pages were encoded."""

    doc_id: str = Field(min_length=1)
    pages: int = Field(ge=1)
    digest: Sha256
    """Over the hashes of its pages' images or texts."""


class VectorHeader(IndexHeader):
    """What is in the index; its arrays are those of `Bank` and `Candidates`."""

    schema_version: Literal[2] = 2
    kind: Kind
    source: Source
    spec: dict[str, JsonValue]
    """What the encoder is opened with again (`docagent_rl.retrieval.encoders`)."""
    documents: Annotated[tuple[StoredDocument, ...], Field(min_length=1)]
    """Sorted by id; the index has one row a page, in the order of `PageRef`."""
    trained_on: int | None = None
    """Vectors that the clusters of `Candidates` were made for; None: all pages are scored."""

    @model_validator(mode="after")
    def _sorted(self) -> VectorHeader:
        ids = [document.doc_id for document in self.documents]
        if ids != sorted(set(ids)):
            raise ValueError("documents are not sorted by id")
        return self

    @property
    def identity(self) -> tuple[object, ...]:
        """What rankings depend on, but for vectors that an unsteady encoder made of the same pages."""
        return self.source, self.documents, self.files.get("centroids.npy"), self.files.get("codes.npy")


def stored_documents(store: DocumentStore, content: PageContent) -> Iterator[StoredDocument]:
    """Yield the documents of a store as they are now, sorted by id.

    Raises:
        UserError: a manifest is damaged.
    """
    for doc_id in store.doc_ids():
        document = store.document(doc_id)
        pages = [document.page(number) for number in range(1, document.num_pages + 1)]
        hashes = [
            page.image_hash if content is PageContent.IMAGE else page.text_hash or "-" for page in pages
        ]
        digest = hashlib.sha256(" ".join(hashes).encode()).hexdigest()
        yield StoredDocument(doc_id=doc_id, pages=len(pages), digest=digest)
