"""Search by vectors: dense ones and late interaction, in an embedded index or a collection of an
engine.
"""

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

    An embedded index scores all pages exactly, an engine all of a document and, of all documents,
    those that its first stage finds. Every page with vectors can be a hit, however unlike the
    query, with a score that may be negative; a page without text has none for an encoder of text,
    and is never one.

    Searching changes nothing, so any number of threads may search at once.

    `make` opens the encoder of queries, with the first one or before.
    """

    def __init__(self, index: VectorIndex | CollectionIndex, make: Callable[[], Encoder]) -> None:
        self.index = index
        self._make = make
        self.contents: tuple[PageContent, ...] = (index.header.content,)
        """The contents of a page that its rank depends on."""
        self._encoder: Encoder | None = None
        self._opening = threading.Lock()

    def open(self) -> Encoder:
        """Return the encoder of queries; it is read once.

        Raises:
            UserError: it is not that of the pages.
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
                f"the index {path} was built with another model or preprocessing than the encoder "
                "of queries "
                f"has (fingerprint {header.encoder[:12]}, not {encoder.fingerprint[:12]}): name "
                "its model "
                f"under docagent.retriever.encoder.model, or {rebuild_command(path)}"
            )
        return encoder

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`.

        Raises:
            ServiceFailedError: the engine is not there, or fails; asking again may help.
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
    """Open the index of a configuration, and check that it is that of the store, unless it may be
    `stale`; see `opening.open_local`.

    `late`: the encoder of queries is opened with the first one, and vectors stay off a device.
    """
    index = _open_index(config, store, key)
    header = index.header
    if config.kind != header.kind:
        raise UserError(
            f"{key}.kind={config.kind}, and the index {index.path} is of kind {header.kind.value}: "
            "set "
            f"kind={header.kind.value}, or {rebuild_command(index.path, store.path)}"
        )
    if config.model is not None:
        _check_model(header.spec, index.path, config.model, store)
    if not stale:
        index.check(store)

    def make() -> Encoder:
        # when it is used: it brings torch and a model along
        from docagent_rl.retrieval.encoders.opening import open_query_encoder

        return open_query_encoder(header.spec, config.encoder)

    found = VectorRetriever(index, make)
    if not late:
        found.open()
        if isinstance(index, VectorIndex) and config.device is not None:
            _bring(index, config.device, f"{key}.device")
    return found


def _open_index(
    config: RetrieverConfig, store: DocumentStore, key: str
) -> VectorIndex | CollectionIndex:
    folder = config.required_index(key)
    if not (folder / HEADER).is_file():
        raise UserError(
            f"{key}.index={folder} is no index; make it with `docagent-rl index build --model "
            f"{config.model or 'MODEL'} --store {store.path} --out {folder}`, or take another "
            "retriever: "
            "+retriever=bm25 needs no model"
        )
    engine = index_engine(folder)
    if config.engine.kind not in (None, engine):
        raise UserError(
            f"{key}.engine.kind={config.engine.kind}, and the index {folder} is of {engine.value}: "
            "set "
            f"{key}.engine.kind={engine.value}, or name another index"
        )
    if engine is SearchEngine.EMBEDDED:
        return VectorIndex.open(folder)
    if config.device is not None:
        raise UserError(
            f"{key}.device={config.device}: the index {folder} is of {engine.value}, which scores "
            "by itself: "
            "set it to null"
        )
    from docagent_rl.retrieval.engines.collection import CollectionIndex

    return CollectionIndex.open(folder, config.engine, key, candidates=config.candidates)


def _bring(index: VectorIndex, device: str, named: str) -> None:
    """Bring the vectors of an index to a device, which scores them from then on.

    Raises:
        UserError: there is no such device, it has no room for them, or they are to stay on the
            disk.
    """
    from docagent_rl.retrieval.encoders.devices import find_device, free_memory

    if index.signs is not None:
        raise UserError(
            f"{named}={device}: the index {index.path} is of binary vectors, which a processor "
            "compares, "
            f"while whole ones stay on the disk: set {named}=null, or build the index with "
            "--precision int8"
        )

    found = find_device(device, named)
    needed = index.bank.gpu_bytes
    free = free_memory(found)
    if free is not None and free < needed:
        raise UserError(
            f"{named}={device}: to hold and score the vectors of the index {index.path} takes "
            f"{needed / 2**30:.2f} GiB, and {free / 2**30:.2f} GiB of {found} on "
            f"{socket.gethostname()} are "
            f"free: set {named}=null, for processors to score them, build the index in an engine "
            "(`docagent-rl index build --engine lancedb`, or qdrant), or name a device with more "
            "room"
        )
    index.bank = index.bank.to(found)


def _check_model(spec: dict[str, JsonValue], path: Path, model: str, store: DocumentStore) -> None:
    """Check that an index was built by the model that a configuration names, wherever that lies."""
    asked = named_spec(model, named="docagent.retriever.model")
    built = EncoderSpec.read(spec, named=str(path))
    if built.decisive() != asked.decisive():
        raise UserError(
            f"docagent.retriever.model={model}, and the index {path} was built with {built.model}, "
            "or with "
            "other prompts, resolution or lengths: name another index, or rebuild it with "
            "`docagent-rl index "
            f"build --model {model} --store {store.path} --out {path} --force`"
        )
