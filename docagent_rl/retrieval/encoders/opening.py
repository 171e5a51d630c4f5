"""Encoders of a specification: for pages, and for the queries of many threads at rollout time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.spec import Encoder, EncoderSpec, Family

KEY = "docagent.retriever.encoder"


class _Waiting(NamedTuple):
    query: str
    since: float
    vectors: Future[np.ndarray]


class QueryEncoder:
    """An `Encoder` around another one.

    The first query of a batch waits `wait_ms` for others; time that it waited for the last batch counts. A
    batch that fails is tried query by query, so that one of them fails for itself; where a service is down,
    all of its batch fail at once. Every caller of a query gets its exception.
    """

    def __init__(self, encoder: Encoder, config: QueryEncoderConfig | None = None) -> None:
        config = config or QueryEncoderConfig()
        self._encoder = encoder
        self._size, self._wait, self._room = config.batch_size, config.wait_ms / 1000, config.cached
        self._waiting: list[_Waiting] = []
        self._known: OrderedDict[str, Future[np.ndarray]] = OrderedDict()
        """Vectors of queries, the latest asked last; those on their way too."""
        self._state = threading.Condition()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="queries")
        self.content: PageContent = encoder.content
        self.dim: int = encoder.dim
        self.fingerprint: str = encoder.fingerprint

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`; the arrays are shared and cannot be written."""
        futures = [self._future(query) for query in queries]
        return [future.result() for future in futures]

    def _future(self, query: str) -> Future[np.ndarray]:
        with self._state:
            if query in self._known:
                self._known.move_to_end(query)
                return self._known[query]
            found: Future[np.ndarray] = Future()
            self._known[query] = found
            self._waiting.append(_Waiting(query, time.monotonic(), found))
            self._state.notify()
        self._worker.submit(self._work)
        return found

    def _work(self) -> None:
        """Encode one batch, if any query waits: each brings a call of this, and a batch serves many."""
        with self._state:
            if not self._waiting:
                return
            patience = self._waiting[0].since + self._wait - time.monotonic()
            self._state.wait_for(lambda: len(self._waiting) >= self._size, max(0.0, patience))
            batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
        self._encode(batch)

    def _encode(self, batch: list[_Waiting]) -> None:
        try:
            vectors = self._encoder.encode_queries([each.query for each in batch])
            if len(vectors) != len(batch):
                raise ValueError(f"the encoder gave {len(vectors)} answers to {len(batch)} queries")
        except Exception as error:  # whatever a model or a service raises belongs to who asked
            if len(batch) > 1 and not isinstance(error, InfrastructureError):
                for each in batch:
                    self._encode([each])
                return
            with self._state:
                for each in batch:
                    self._known.pop(each.query, None)
            for each in batch:
                each.vectors.set_exception(error)
            return
        for each, found in zip(batch, vectors, strict=True):
            array = np.ascontiguousarray(found, dtype=np.float32)
            array.setflags(write=False)
            each.vectors.set_result(array)
        self._forget()

    def _forget(self) -> None:
        """Drop the queries that were asked longest ago; those on their way stay."""
        with self._state:
            done = [query for query, vectors in self._known.items() if vectors.done()]
            for query in done[: max(0, len(done) - self._room)]:
                del self._known[query]


def open_encoder(
    spec: EncoderSpec | Mapping[str, object],
    *,
    device: str | None = None,
    batch_size: int = 8,
    threads: int | None = None,
    named: str = "encoder.model",
) -> LocalEncoder:
    """Open the model of a specification in this process; see `LocalEncoder`.

    Raises:
        UserError: the specification is none, or the model is not there, damaged, or another.
    """
    read = spec if isinstance(spec, EncoderSpec) else EncoderSpec.read(spec)
    made = _encoder_class(read.family)
    return made(read, device=device, batch_size=batch_size, threads=threads, named=named)


def open_query_encoder(spec: Mapping[str, object], config: QueryEncoderConfig) -> QueryEncoder:
    """Open the encoder of queries of an index, whose specification is that of the encoder of its pages.

    Raises:
        UserError: see `open_encoder`.
    """
    read = EncoderSpec.read(spec)
    if config.model is not None:
        read = read.model_copy(update={"model": config.model, "revision": None})
    options: dict[str, Any] = config.model_dump(include={"device", "batch_size", "threads"})
    return QueryEncoder(open_encoder(read, **options, named=f"{KEY}.model"), config)


def _encoder_class(family: Family) -> type[LocalEncoder]:
    if family is Family.SENTENCE_TRANSFORMER:
        from docagent_rl.retrieval.encoders.sentences import DenseEncoder

        return DenseEncoder
    if family is Family.COLBERT:
        from docagent_rl.retrieval.encoders.sentences import LateTextEncoder

        return LateTextEncoder
    from docagent_rl.retrieval.encoders.images import LastTokenEncoder, LateImageEncoder

    return LastTokenEncoder if family.last_token else LateImageEncoder
