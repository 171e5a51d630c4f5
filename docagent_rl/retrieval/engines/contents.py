"""The contents of a collection: the header of its index, and the pages that are stored."""

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
    """The work of a build that a kill leaves to the next one."""

    MAKING = "making"
    """There may be no collection, or one of another index under its name."""
    FILLING = "filling"
    """Pages may be missing, or there without their document, and searches may be slow."""
    FINISHED = "finished"
    """Nothing: all pages are there, and what makes searches fast."""


class CollectionHeader(SourceHeader):
    """The header of an index whose pages are in a collection of an engine.

    The vectors are rounded to bfloat16, as those of embedded indexes are. `documents` are those
    whose pages are all there.
    """

    schema_version: Literal[7] = 7
    phase: Phase = Phase.MAKING
    engine: Engine
    url: str | None = None
    """Place of the collection; None: in the folder of the index."""
    collection: Annotated[str, Field(pattern=r"^[\w.-]{1,128}$")]
    """Its name."""
    token_env: str | None = None
    """Name of the variable that holds the token of its server."""
    filled: dict[str, int] = Field(default_factory=dict)
    """Number of pages with vectors of each document."""

    @property
    def place(self) -> str:
        """The place of the collection, for messages."""
        return (
            f"the collection {self.collection!r} of {self.engine.value} at "
            f"{self.url or 'its folder'}"
        )

    @property
    def num_filled(self) -> int:
        """Number of pages with vectors."""
        return sum(self.filled.values())

    def without_documents(self) -> CollectionHeader:
        """Return the header of the same collection without its documents and what depends on the
        machine.
        """
        held = {"documents": (), "filled": {}, "phase": Phase.MAKING}
        return self.unsaved().model_copy(update={**held, "token_env": None})


@dataclass(frozen=True, slots=True)
class VectorPage:
    """A page to be stored, with the digest of its document and its vectors, float32 (n, dim), n >=
    1.
    """

    ref: PageRef
    digest: str
    vectors: np.ndarray
