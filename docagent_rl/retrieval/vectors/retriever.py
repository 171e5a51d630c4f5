"""Search by vectors: dense ones and late interaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.retrieval.base import Hit, Pages, check_queries
from docagent_rl.retrieval.config import KEY, RetrieverConfig
from docagent_rl.retrieval.encoders.spec import Encoder, EncoderSpec, named_spec
from docagent_rl.retrieval.index_files import HEADER, rebuild_command
from docagent_rl.retrieval.vectors.index import Kind, Source, VectorIndex
from docagent_rl.retrieval.vectors.maxsim import NO_SCORE, rank_rows

if TYPE_CHECKING:
    from docagent_rl.retrieval.vectors.on_device import DeviceBank

logger = logging.getLogger(__name__)


class VectorRetriever:
    """A `Retriever` over the vectors of pages.

    All pages are scored exactly. Every page with vectors can be a hit, however unlike the query, with a score
    that may be negative; a page without text has none for an encoder of text, and is never one.

    Searching changes nothing, so any number of threads may search at once.

    Raises:
        UserError: the encoder is not that of the pages.
    """

    def __init__(self, index: VectorIndex, encoder: Encoder, *, on_device: DeviceBank | None = None) -> None:
        source = index.header.source
        check_encoder(source, encoder, index.path)
        self.index = index
        self.contents: tuple[PageContent, ...] = (source.content,)
        """The contents of a page that its rank depends on."""
        self._encoder, self._on_device = encoder, on_device

    def __eq__(self, other: object) -> bool:
        """Return whether both rank alike: the same pages and the same vectors of them."""
        if not isinstance(other, VectorRetriever):
            return NotImplemented
        return self.index.header.identity == other.index.header.identity

    def __hash__(self) -> int:
        return hash(self.index.header.identity)

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return self.index.num_pages

    def check(self, store: DocumentStore) -> None:
        """See `VectorIndex.check`."""
        self.index.check(store)

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        check_queries(queries, top_k)
        start, end = self.index.rows.span(doc_id)
        excluded = self.index.rows.rows(exclude)
        excluded = excluded[(excluded >= start) & (excluded < end)]
        hits: list[list[Hit]] = [[] for _ in queries]
        usable = encoded_queries(self._encoder, queries)
        if not usable:
            return hits
        asked = [query for _, query in usable]
        if self._on_device is None:
            scores = self.index.scores(asked, doc_id)
        else:
            scores = self._on_device.scores(asked, start, end)
        scores[:, excluded - start] = NO_SCORE
        for (number, _), found in zip(usable, scores, strict=True):
            hits[number] = [
                Hit(self.index.rows.ref(start + row), float(found[row]))
                for row in rank_rows(found, top_k).tolist()
            ]
        return hits


class LateEncoder:
    """The encoder of an index, opened with the first query: checks before a run read no weights."""

    def __init__(self, source: Source, make: Callable[[], Encoder]) -> None:
        self.content, self.dim, self.fingerprint = source.content, source.dim, source.encoder
        self._make = make

    @cached_property
    def _encoder(self) -> Encoder:
        return self._make()

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`."""
        return self._encoder.encode_queries(queries)


def open_vectors(
    config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, late: bool = False
) -> VectorRetriever:
    """Open the index of a configuration, and check that it is that of the store; see `opening.open_local`.

    `late`: the encoder of queries is opened, and vectors are brought to a device, with the first query.
    """
    folder = config.required_index(key)
    if not (folder / HEADER).is_file():
        raise UserError(
            f"{key}.index={folder} is no index; make it with `docagent-rl index build --model "
            f"{config.model or 'MODEL'} --store {store.path} --out {folder}`, or take another retriever: "
            "+retriever=bm25 needs no model"
        )
    index = VectorIndex.open(folder)
    kind = index.header.kind
    if config.kind in tuple(Kind) and config.kind != kind:
        raise UserError(
            f"{key}.kind={config.kind}, and the index {index.path} is of kind {kind.value}: set "
            f"kind={kind.value}, or {rebuild_command(index.path, store.path)}"
        )
    if config.model is not None:
        check_model(index.header.spec, index.path, config.model, store)
    index.check(store)
    encoder = query_encoder(index.header.source, index.header.spec, config, late=late)
    on_device = None
    if config.device is not None:
        from docagent_rl.retrieval.vectors.on_device import DeviceBank  # torch takes seconds to import

        on_device = DeviceBank(index.bank, config.device, f"{key}.device")
        if not late:
            on_device.load()
    return VectorRetriever(index, encoder, on_device=on_device)


def query_encoder(
    source: Source, spec: dict[str, JsonValue], config: RetrieverConfig, *, late: bool = False
) -> Encoder:
    """Return the encoder of queries of an index; `late`: it is opened with the first one."""

    def make() -> Encoder:
        # when it is used: it brings torch and a model along
        from docagent_rl.retrieval.encoders.opening import open_query_encoder

        return open_query_encoder(spec, config.encoder)

    return LateEncoder(source, make) if late else make()


def check_encoder(source: Source, encoder: Encoder, path: Path) -> None:
    """Check that an encoder of queries is the one that an index was built with.

    Raises:
        UserError: it is not.
    """
    if encoder.fingerprint != source.encoder or encoder.dim != source.dim:
        raise UserError(
            f"the index {path} was built with another model or preprocessing than the encoder of queries has "
            f"(fingerprint {source.encoder[:12]}, not {encoder.fingerprint[:12]}): name its model under "
            f"docagent.retriever.encoder.model, or {rebuild_command(path)}"
        )


def check_model(spec: dict[str, JsonValue], path: Path, model: str, store: DocumentStore) -> None:
    """Check that an index was built by the model that a configuration names, wherever that lies.

    Raises:
        UserError: it was not.
    """
    asked = named_spec(model, named="docagent.retriever.model")
    built = EncoderSpec.read(spec, named=str(path))
    if built.decisive() != asked.decisive():
        raise UserError(
            f"docagent.retriever.model={model}, and the index {path} was built with {built.model}, or with "
            "other prompts, resolution or lengths: name another index, or rebuild it with `docagent-rl index "
            f"build --model {model} --store {store.path} --out {path} --force`"
        )


def encoded_queries(encoder: Encoder, queries: Sequence[str]) -> list[tuple[int, np.ndarray]]:
    """Return the vectors of queries, float32 of shape (t, dim), with their places in the batch.

    Blank queries, and those without finite vectors, are left out.

    Raises:
        InfrastructureError: the encoder gives arrays of another shape.
    """
    asked = [number for number, query in enumerate(queries) if query.strip()]
    found = encoder.encode_queries([queries[number] for number in asked]) if asked else []
    if len(found) != len(asked) or any(v.ndim != 2 or v.shape[1] != encoder.dim for v in found):
        raise InfrastructureError("the encoder of queries gave arrays of another shape than it promises")
    return [pair for pair in zip(asked, found, strict=True) if _usable(queries[pair[0]], pair[1])]


def _usable(query: str, vectors: np.ndarray) -> bool:
    """Return whether a query has finite vectors to compare; one without finds nothing."""
    if len(vectors) and np.isfinite(vectors).all():
        return True
    logger.warning("the encoder gave no finite vectors for the query %.80r: it finds nothing", query)
    return False
