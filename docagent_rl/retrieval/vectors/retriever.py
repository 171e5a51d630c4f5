"""Retrieval by vectors, dense or late interaction, from an embedded index or an engine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.retrieval.base import Hit, Pages, check_queries
from docagent_rl.retrieval.config import KEY, RetrieverConfig, SearchEngine
from docagent_rl.retrieval.encoders.spec import Encoder, EncoderSpec, named_spec
from docagent_rl.retrieval.index_files import HEADER, index_engine, rebuild_command
from docagent_rl.retrieval.vectors.index import VectorIndex

if TYPE_CHECKING:
    from docagent_rl.retrieval.engines.collection import CollectionIndex


class VectorRetriever:
    """A `Retriever` over the vectors of pages.

    An embedded index scores all pages exactly. An engine does so within a document; in a search
    over all documents, it only scores the pages that its first stage finds. Every page with vectors
    can be a hit, however different from the query, and its score may be negative. For a text
    encoder, a page without text has no vectors and is never a hit.

    Searching changes nothing, so any number of threads may search at once. `make` opens the query
    encoder, at the latest for the first search.
    """

    def __init__(self, index: VectorIndex | CollectionIndex, make: Callable[[], Encoder]) -> None:
        self.index = index
        self._make = make
        self.contents: tuple[PageContent, ...] = (index.header.content,)
        """The contents of a page on which its rank depends."""
        self._encoder: Encoder | None = None
        self._opening = threading.Lock()

    def open(self) -> Encoder:
        """Return the query encoder, which is loaded only once.

        Raises:
            UserError: It is not the encoder of the pages.
        """
        with self._opening:
            self._encoder = self._encoder or self._opened()
            return self._encoder

    def _opened(self) -> Encoder:
        encoder = self._make()
        header = self.index.header
        path = self.index.path
        if (encoder.fingerprint, encoder.dim) != (header.encoder, header.dim):
            raise UserError(
                f"the index {path} was built with another model or preprocessing than that of the "
                f"query encoder (fingerprint {header.encoder[:12]}, not "
                f"{encoder.fingerprint[:12]}): name the index's model in "
                f"docagent.retriever.encoder.model, or {rebuild_command(path)}"
            )
        return encoder

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`.

        Raises:
            ServiceFailedError: The engine cannot be reached or fails; a retry may succeed.
        """
        check_queries(queries, top_k)
        asked = [query for query in queries if query.strip()]
        vectors = self.open().encode_queries(asked) if asked else []
        found = iter(
            self.index.rank(vectors, doc_id=doc_id, top_k=top_k, exclude=frozenset(exclude))
        )
        return [next(found) if query.strip() else [] for query in queries]


def open_pages(
    config: RetrieverConfig,
    store: DocumentStore,
    key: str = KEY,
    *,
    late: bool = False,
    stale: bool = False,
) -> VectorRetriever:
    """Open the index of a configuration, which must match the store unless `stale` is set.

    With `late`, the query encoder is not opened before the first search, and vectors are not moved
    to a device. See `opening.open_local`.
    """
    index = _open_index(config, store, key)
    header = index.header
    if config.kind != header.kind:
        raise UserError(
            f"{key}.kind={config.kind}, but the index {index.path} is of kind "
            f"{header.kind.value}: set kind={header.kind.value}, or "
            f"{rebuild_command(index.path, store.path)}"
        )
    if config.model is not None:
        _check_model(header.spec, index.path, config.model, store)
    if not stale:
        index.check(store)

    def make() -> Encoder:
        # imported only when it is used, since it imports torch and loads a model
        from docagent_rl.retrieval.encoders.opening import open_query_encoder

        return open_query_encoder(header.spec, config.encoder)

    found = VectorRetriever(index, make)
    if not late:
        found.open()
        if isinstance(index, VectorIndex) and config.device is not None:
            _move_vectors(index, config.device, f"{key}.device")
    return found


def _open_index(
    config: RetrieverConfig, store: DocumentStore, key: str
) -> VectorIndex | CollectionIndex:
    folder = config.required_index(key)
    if not (folder / HEADER).is_file():
        raise UserError(
            f"{key}.index={folder} is not an index; build it with `docagent-rl index build --model "
            f"{config.model or 'MODEL'} --store {store.path} --out {folder}`, or use another "
            "retriever: +retriever=bm25 needs no model"
        )
    engine = index_engine(folder)
    if config.engine.kind not in (None, engine):
        raise UserError(
            f"{key}.engine.kind={config.engine.kind}, but the index {folder} is of "
            f"{engine.value}: set {key}.engine.kind={engine.value}, or name another index"
        )
    if engine is SearchEngine.EMBEDDED:
        return VectorIndex.open(folder)
    if config.device is not None:
        raise UserError(
            f"{key}.device={config.device}: the index {folder} is of {engine.value}, which "
            "computes the scores itself: set it to null"
        )
    from docagent_rl.retrieval.engines.collection import CollectionIndex

    return CollectionIndex.open(folder, config.engine, key, candidates=config.candidates)


def _move_vectors(index: VectorIndex, device: str, named: str) -> None:
    """Move the vectors of an index to a device, which scores them from then on.

    Raises:
        UserError: There is no such device, it has too little memory, or the index is binary.
    """
    from docagent_rl.retrieval.encoders.devices import find_device, free_memory

    if index.signs is not None:
        raise UserError(
            f"{named}={device}: the index {index.path} is of binary vectors, which are compared on "
            f"the CPU, while whole vectors stay on disk: set {named}=null, or build the index with "
            "--precision int8"
        )

    found = find_device(device, named)
    needed = index.bank.gpu_bytes
    free = free_memory(found)
    if free is not None and free < needed:
        raise UserError(
            f"{named}={device}: storing and scoring the vectors of the index {index.path} takes "
            f"{needed / 2**30:.2f} GiB, but only {free / 2**30:.2f} GiB of {found} on "
            f"{socket.gethostname()} are free: set {named}=null to score them on the CPU, build "
            "the index in an engine (`docagent-rl index build --engine lancedb`, or qdrant), or "
            "name a device with more memory"
        )
    index.bank = index.bank.to(found)


def _check_model(spec: dict[str, JsonValue], path: Path, model: str, store: DocumentStore) -> None:
    """Check that an index was built with the model of a configuration, in whatever folder it is."""
    asked = named_spec(model, named="docagent.retriever.model")
    built = EncoderSpec.read(spec, named=str(path))
    if built.vector_settings() != asked.vector_settings():
        raise UserError(
            f"docagent.retriever.model={model}, but the index {path} was built with {built.model}, "
            "or with other prompts, resolution or lengths: name another index, or rebuild it with "
            f"`docagent-rl index build --model {model} --store {store.path} --out {path} --force`"
        )
