"""Queries of many sessions at once: encoded in batches, equal ones once, and remembered."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.config import QueryEncoderConfig
from docagent_rl.retrieval.encoders.base import Encoder


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    """What was asked and done since the encoder was opened.

    Attributes:
        queries: asked for.
        hits: of them, remembered.
        joined: of them, the same as one that was on its way.
        encoded: by the model.
        batches: of the model.
        seconds: that the model took.
    """

    queries: int = 0
    hits: int = 0
    joined: int = 0
    encoded: int = 0
    batches: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    query: str
    since: float
    vectors: Future[np.ndarray]


class QueryEncoder:
    """An `Encoder` around another one.

    The first query of a batch waits `wait_ms` for others; time that it waited for the last batch counts. A
    batch that fails is tried query by query, so that one of them fails for itself; where a service is down,
    all of its batch fail at once. Every caller of a query gets its exception.

    Args:
        encoder: the model.
        config: sizes and times.
    """

    def __init__(self, encoder: Encoder, config: QueryEncoderConfig | None = None) -> None:
        config = config or QueryEncoderConfig()
        self._encoder = encoder
        self._size, self._wait, self._room = config.batch_size, config.wait_ms / 1000, config.cached
        self._waiting: list[_Waiting] = []
        self._flights: dict[str, Future[np.ndarray]] = {}
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()
        self._state = threading.Condition()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="queries")
        self._statistics = QueryStatistics()
        self.content: PageContent = encoder.content
        self.dim: int = encoder.dim
        self.fingerprint: str = encoder.fingerprint

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        """See `Encoder.encode_pages`; straight to the model."""
        return self._encoder.encode_pages(pages)

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`; the arrays are shared and cannot be written."""
        futures = [self._future(query) for query in queries]
        return [future.result() for future in futures]

    def statistics(self) -> QueryStatistics:
        """Counts so far."""
        with self._state:
            return self._statistics

    def _future(self, query: str) -> Future[np.ndarray]:
        with self._state:
            self._count(queries=1)
            known = self._known.get(query)
            if known is not None:
                self._known.move_to_end(query)
                self._count(hits=1)
                found: Future[np.ndarray] = Future()
                found.set_result(known)
                return found
            flight = self._flights.get(query)
            if flight is not None:
                self._count(joined=1)
                return flight
            flight = self._flights[query] = Future()
            self._waiting.append(_Waiting(query, time.monotonic(), flight))
            self._state.notify()
        self._worker.submit(self._work)
        return flight

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
        begun = time.monotonic()
        try:
            vectors = self._encoder.encode_queries([each.query for each in batch])
            if len(vectors) != len(batch):
                raise ValueError(f"the encoder gave {len(vectors)} answers to {len(batch)} queries")
        except Exception as error:  # whatever a model or a service raises belongs to who asked
            self._count_batch(batch, begun)
            if len(batch) == 1 or isinstance(error, InfrastructureError):
                self._fail(batch, error)
                return
            for each in batch:
                self._encode([each])
            return
        self._count_batch(batch, begun)
        for each, found in zip(batch, vectors, strict=True):
            self._finish(each, found)

    def _count_batch(self, batch: list[_Waiting], begun: float) -> None:
        with self._state:
            self._count(encoded=len(batch), batches=1, seconds=time.monotonic() - begun)

    def _finish(self, each: _Waiting, vectors: np.ndarray) -> None:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        vectors.setflags(write=False)
        with self._state:
            self._flights.pop(each.query, None)
            if self._room:
                self._known[each.query] = vectors
                while len(self._known) > self._room:
                    self._known.popitem(last=False)
        each.vectors.set_result(vectors)

    def _fail(self, batch: list[_Waiting], error: Exception) -> None:
        with self._state:
            for each in batch:
                self._flights.pop(each.query, None)
        for each in batch:
            each.vectors.set_exception(error)

    def _count(self, **more: float) -> None:
        """Add to the statistics; the lock is held."""
        values = {name: getattr(self._statistics, name) + value for name, value in more.items()}
        self._statistics = replace(self._statistics, **values)
