"""What an index of vectors, and each of its shards, say of themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.retrieval.index_header import Sha256
from docagent_rl.retrieval.vectors.bank import Precision
from docagent_rl.retrieval.vectors.sealed_headers import SealedModel

Name = Annotated[str, Field(pattern=r"^(shard|candidates)-[0-9a-f]{16}$")]
Count = Annotated[int, Field(ge=1)]


class Kind(StrEnum):
    """What vectors stand for."""

    DENSE = "dense"
    """A page, or a passage of one."""
    LATE_INTERACTION = "late_interaction"
    """A token or a patch."""


class VectorSettings(BaseModel):
    """How vectors are stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precision: Precision = Precision.BFLOAT16
    pool_factor: int = Field(1, ge=1, le=1024)
    """Similar vectors of a page are joined until one in so many is left; 1: none are."""


class Source(BaseModel):
    """What vectors were made by; those of equal sources may be compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class StoredDocument(BaseModel):
    """A document as it was when its pages were encoded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    doc_id: str = Field(min_length=1)
    pages: Count
    digest: Sha256
    """Over the hashes of its pages' images or texts."""


class ShardHeader(SealedModel):
    """Documents whose pages lie behind each other in the files of a shard."""

    schema_version: Literal[1] = 1
    source: Source
    vectors: int = Field(ge=0)
    documents: tuple[StoredDocument, ...]
    files: dict[Annotated[str, Field(pattern=r"^(vectors|offsets|scales)\.bin$")], Sha256]

    @model_validator(mode="after")
    def _whole(self) -> ShardHeader:
        scaled = self.source.settings.precision is Precision.INT8
        if set(self.files) != {"vectors.bin", "offsets.bin", *(["scales.bin"] if scaled else [])}:
            raise ValueError("files are not those of a shard")
        return self

    @property
    def pages(self) -> int:
        """Of all documents."""
        return sum(document.pages for document in self.documents)


class Placed(StoredDocument):
    """A document of an index and where its vectors are."""

    shard: int = Field(ge=0)
    """Position in the header's `shards`."""
    first: int = Field(ge=0)
    """Its first page among those of the shard."""


class VectorHeader(SealedModel):
    """Of the index."""

    schema_version: Literal[1] = 1
    kind: Kind
    source: Source
    spec: dict[str, JsonValue]
    """What the encoder is opened with again (`docagent_rl.retrieval.encoders`)."""
    documents: Annotated[tuple[Placed, ...], Field(min_length=1)]
    """Sorted by id; the index has one row a page, in the order of `PageRef`."""
    shards: dict[Name, Sha256]
    """SHA-256 of each shard's header, by the name of its folder."""
    candidates: dict[Name, Sha256] = Field(default_factory=dict, max_length=1)
    """The same of the first stage of searches over all documents; none for a small index."""

    @model_validator(mode="after")
    def _consistent(self) -> VectorHeader:
        ids = [document.doc_id for document in self.documents]
        if ids != sorted(set(ids)):
            raise ValueError("documents are not sorted by id")
        if self.kind is not self.source.kind:
            raise ValueError("kind and source.kind differ")
        if any(document.shard >= len(self.shards) for document in self.documents):
            raise ValueError("a document is in a shard that is not listed")
        kinds = [name.partition("-")[0] for name in (*self.shards, *self.candidates)]
        if kinds != ["shard"] * len(self.shards) + ["candidates"] * len(self.candidates):
            raise ValueError("shards and candidates are mixed up")
        return self

    @property
    def identity(self) -> tuple[object, ...]:
        """What rankings depend on, but for vectors that an unsteady encoder made of the same pages."""
        documents = tuple((d.doc_id, d.pages, d.digest) for d in self.documents)
        return (self.source, documents, tuple(self.candidates))


def stored_documents(store: DocumentStore, content: PageContent) -> Iterator[StoredDocument]:
    """The documents of a store as they are now, sorted by id.

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
