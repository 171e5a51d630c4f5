"""The contents of a collection: the header of its index, and the pages to store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.vectors.index import SourceHeader

Engine = Literal[SearchEngine.QDRANT, SearchEngine.LANCEDB]


class Phase(StrEnum):
    """Phases of a build; after a kill, the next build continues in the same phase."""

    MAKING = "making"
    """There may be no collection, or one of another index with its name."""
    FILLING = "filling"
    """Pages may be missing, or stored without their document, and searches may be slow."""
    FINISHED = "finished"
    """All pages are stored, and the engine's search index is complete."""


class CollectionHeader(SourceHeader):
    """The header of an index whose vectors are in a collection of an engine.

    The vectors are rounded to bfloat16, as in embedded indexes. `documents` are the documents that
    are completely stored.
    """

    schema_version: Literal[7] = 7
    phase: Phase = Phase.MAKING
    engine: Engine
    url: str | None = None
    """Address of the collection; None: the folder of the index."""
    collection: Annotated[str, Field(pattern=r"^[\w.-]{1,128}$")]
    """Name of the collection."""
    token_env: str | None = None
    """Environment variable with the token for its server."""
    filled: dict[str, int] = Field(default_factory=dict)
    """Number of pages with vectors of each document."""

    @property
    def place(self) -> str:
        """Name, engine and address of the collection, for messages."""
        return (
            f"the collection {self.collection!r} of {self.engine.value} at "
            f"{self.url or 'its folder'}"
        )

    @property
    def num_filled(self) -> int:
        """Number of pages with vectors."""
        return sum(self.filled.values())

    def without_documents(self) -> CollectionHeader:
        """Return the header without its documents and without what depends on the machine."""
        empty = {"documents": (), "filled": {}, "phase": Phase.MAKING}
        return self.unsaved().model_copy(update={**empty, "token_env": None})


@dataclass(frozen=True, slots=True)
class VectorPage:
    """A page to store."""

    ref: PageRef
    digest: str
    """Digest of its document (`StoredDocument.digest`)."""
    vectors: np.ndarray
    """float32 of shape (n, dim), n >= 1."""
