"""Opening of encoders by specification, and an encoder for the queries of many threads."""

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
    """An `Encoder` around another one, which batches the queries that arrive while it is busy."""

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
        """Encode one batch, if any queries wait.

        This is called once per query, but an earlier call may have encoded several queries.
        """
        batch = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
        if batch:
            self._encode(batch)

    def _encode(self, batch: Sequence[tuple[str, Future[np.ndarray]]]) -> None:
        try:
            vectors = self._encoder.encode_queries([query for query, _ in batch])
            pairs = list(zip(batch, vectors, strict=True))
        except Exception as error:  # models may raise anything
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            # encode queries one by one, so that only the one at fault gets the error
            for each in batch:
                self._encode([each])
            return
        for (_, future), vector in pairs:
            future.set_result(vector)


def open_encoder(
    spec: EncoderSpec | Mapping[str, object], *, named: str = "encoder.model", **options: Any
) -> LocalEncoder:
    """Open the encoder of a specification in this process; options are those of `LocalModel`.

    Raises:
        UserError: The specification is invalid, or the model is missing, damaged, or another one.
    """
    read = spec if isinstance(spec, EncoderSpec) else EncoderSpec.read(spec)
    return _encoder_class(read.family)(read, named=named, **options)


def open_query_encoder(spec: Mapping[str, object], config: QueryEncoderConfig) -> QueryEncoder:
    """Open the query encoder for an index, by the specification of its page encoder.

    Raises:
        UserError: See `open_encoder`; or the model cannot run on a server.
        InfrastructureError: The server does not respond.
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
