"""Search in a collection of an engine."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.documents.store import unknown_document
from docagent_rl.retrieval.base import Hit, Pages, best_hits, check_queries
from docagent_rl.retrieval.config import KEY, RetrieverConfig
from docagent_rl.retrieval.encoders.spec import Encoder
from docagent_rl.retrieval.engines.collection import Asked
from docagent_rl.retrieval.engines.opening import CollectionIndex
from docagent_rl.retrieval.vectors.index import StoredDocument
from docagent_rl.retrieval.vectors.maxsim import rounded
from docagent_rl.retrieval.vectors.retriever import (
    check_encoder,
    check_model,
    encoded_queries,
    query_encoder,
)


class EngineRetriever:
    """A `Retriever` over the pages of a collection, which fits a document store.

    All pages of a document are scored; of all documents those that the engine's first stage finds are, so
    that a search over all documents may miss some of the best. Scores are those of an embedded index but for
    rounding. While a collection changes, searches find what is there.

    Raises:
        UserError: the encoder is not that of the pages, or the collection is not that of the store.
        InfrastructureError: the engine cannot be reached.
    """

    def __init__(
        self, index: CollectionIndex, encoder: Encoder, store: DocumentStore, *, candidates: int = 200
    ) -> None:
        check_encoder(index.header.source, encoder, index.path)
        self.index, self._encoder, self._candidates = index, encoder, candidates
        self.contents: tuple[PageContent, ...] = (index.header.source.content,)
        """The contents of a page that its rank depends on."""
        self._documents: dict[str, StoredDocument] = {each.doc_id: each for each in index.check(store)}

    def __eq__(self, other: object) -> bool:
        """Return whether both rank alike: the same pages and the same vectors of them, in the same engine."""
        return self._identity == other._identity if isinstance(other, EngineRetriever) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, ...]:
        header = self.index.header
        return header.engine, header.source, tuple(self._documents.values()), self._candidates

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return sum(document.pages for document in self._documents.values())

    def check(self, store: DocumentStore) -> None:
        """See `CollectionIndex.check`."""
        self.index.check(store)

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`.

        Raises:
            NotTakenError, ServiceFailedError: the engine is not there, or fails; asking again may help.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._documents:
            raise unknown_document(doc_id, sorted(self._documents), "the index")
        hits: list[list[Hit]] = [[] for _ in queries]
        excluded = frozenset(exclude)
        for number, query in encoded_queries(self._encoder, queries):
            asked = Asked(rounded(query), doc_id, top_k, excluded, self._candidates)
            hits[number] = best_hits(self.index.collection.search(asked), top_k)
        return hits


def open_engine(
    config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, late: bool = False
) -> EngineRetriever:
    """Open the collection of a configuration, and check that it is that of the store.

    `late`: the encoder of queries is opened with the first one.

    Raises:
        UserError, InfrastructureError: as `EngineRetriever`.
    """
    index = CollectionIndex.open(config.required_index(key), config.engine, key)
    header = index.header
    if config.kind != header.kind:
        raise UserError(
            f"{key}.kind={config.kind}, and the index {index.path} is of kind {header.kind.value}: set "
            f"kind={header.kind.value}"
        )
    if config.model is not None:
        check_model(header.spec, index.path, config.model, store)
    encoder = query_encoder(header.source, header.spec, config, late=late)
    return EngineRetriever(index, encoder, store, candidates=config.candidates)
