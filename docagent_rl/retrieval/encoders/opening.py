"""Encoders of a specification: for pages, and for the queries of many threads at rollout time."""

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.spec import ArchitectureFamily, Encoder, EncoderSpec

KEY = "docagent.retriever.encoder"


class QueryEncoder:
    """An `Encoder` around another one: queries that come while it is busy are its next batch."""

    def __init__(self, encoder: Encoder, batch_size: int = 32) -> None:
        self._encoder = encoder
        self._size = batch_size
        self._waiting: deque[tuple[str, Future[np.ndarray]]] = deque()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="queries")
        self.content: PageContent = encoder.content
        self.dim: int = encoder.dim
        self.fingerprint: str = encoder.fingerprint

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`."""
        found: list[Future[np.ndarray]] = [Future() for _ in queries]
        self._waiting.extend(zip(queries, found, strict=True))
        for _ in queries:
            self._worker.submit(self._work)
        return [each.result() for each in found]

    def _work(self) -> None:
        """Encode one batch, if any query waits: each brings a call of this, and a batch serves
        many.
        """
        batch = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
        if batch:
            self._encode(batch)

    def _encode(self, batch: Sequence[tuple[str, Future[np.ndarray]]]) -> None:
        try:
            vectors = self._encoder.encode_queries([query for query, _ in batch])
            pairs = list(zip(batch, vectors, strict=True))
        except (
            Exception
        ) as error:  # whatever a model raises belongs to the one query that brought it
            if len(batch) == 1:
                batch[0][1].set_exception(error)
            for each in batch if len(batch) > 1 else ():
                self._encode([each])
            return
        for (_, found), made in pairs:
            found.set_result(made)


def open_encoder(
    spec: EncoderSpec | Mapping[str, object], *, named: str = "encoder.model", **options: Any
) -> LocalEncoder:
    """Open the model of a specification in this process; options are those of `LocalModel`.

    Raises:
        UserError: the specification is none, or the model is not there, damaged, or another.
    """
    read = spec if isinstance(spec, EncoderSpec) else EncoderSpec.read(spec)
    return _encoder_class(read.family)(read, named=named, **options)


def open_query_encoder(spec: Mapping[str, object], config: QueryEncoderConfig) -> QueryEncoder:
    """Open the encoder of queries of an index, whose specification is that of the encoder of its
    pages.

    Raises:
        UserError: see `open_encoder`; or the model cannot be asked at a server.
        InfrastructureError: the server does not answer.
    """
    read = EncoderSpec.read(spec)
    if config.model is not None:
        read = read.model_copy(update={"model": config.model, "revision": None})
    if config.endpoint is not None:
        from docagent_rl.retrieval.pooling_server import ServedEncoder

        return QueryEncoder(ServedEncoder(read, config.endpoint))
    opened = open_encoder(read, device=config.device, threads=config.threads, named=f"{KEY}.model")
    return QueryEncoder(opened)


def _encoder_class(family: ArchitectureFamily) -> type[LocalEncoder]:
    if family is ArchitectureFamily.SENTENCE_TRANSFORMER:
        from docagent_rl.retrieval.encoders.sentences import DenseEncoder

        return DenseEncoder
    if family is ArchitectureFamily.COLBERT:
        from docagent_rl.retrieval.encoders.sentences import LateTextEncoder

        return LateTextEncoder
    from docagent_rl.retrieval.encoders.images import LastTokenEncoder, LateImageEncoder

    return LastTokenEncoder if family.last_token else LateImageEncoder
