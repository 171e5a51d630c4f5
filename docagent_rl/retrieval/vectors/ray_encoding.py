"""Vectors of pages by actors on the nodes of a Ray cluster."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.encoders import PageEncoder
from docagent_rl.retrieval.vectors.encoding import EncoderFactory, EncoderFacts, PageBatch, encode_batch

_AT_A_TIME = 2
"""Batches of an actor: one is decoded while the model works on the other."""


class RayVectors:
    """Encodes on the cluster that this process is connected to (`ray.init`).

    What comes of a batch does not depend on the actor or on their number, and batches come back in their
    order. Ray starts anew what was on a node that died. All nodes see the store under the same path.

    Args:
        factory: of the encoder; runs in the actors.
        encoders: actors that each hold the model, at most.
        num_gpus: an actor; a part where several fit on one.

    Raises:
        InfrastructureError: this process is not connected to a cluster.
    """

    def __init__(self, factory: EncoderFactory, *, encoders: int = 1, num_gpus: float = 0.0) -> None:
        import ray

        if not ray.is_initialized():
            raise InfrastructureError("no Ray cluster: connect to one with ray.init before encoding on it")
        self._factory, self._encoders, self._num_gpus = factory, encoders, num_gpus
        self._actor = self._make()

    def facts(self) -> EncoderFacts:
        """See `PageVectors`; an actor opens the encoder, for this process may have no GPU."""
        return _result(self._actor.facts.remote())

    def run(
        self, store: DocumentStore, batches: Sequence[PageBatch], pool_factor: int
    ) -> Iterator[list[np.ndarray]]:
        """See `PageVectors`.

        Raises:
            UserError: a page cannot be read, or a worker has another model.
            InfrastructureError: a node does not see the store, the encoder or Ray fails.
        """
        import ray

        fingerprint = self.facts().fingerprint
        free = deque([self._actor] * _AT_A_TIME)
        others = [self._make() for _ in range(min(self._encoders, len(batches)) - 1)]
        # an actor that finds no place in the cluster is waited for by nobody
        starting = {actor.facts.remote(): actor for actor in others}
        busy: dict[Any, Any] = {}
        running: deque[Any] = deque()
        for batch in batches:
            while not free:
                (done,), _ = ray.wait([*starting, *busy], num_returns=1)
                free += [starting.pop(done)] * _AT_A_TIME if done in starting else [busy.pop(done)]
            actor = free.popleft()
            reference = actor.encode.remote(store.path, batch, pool_factor, fingerprint)
            busy[reference] = actor
            running.append(reference)
            while running[0] not in busy:
                yield _result(running.popleft())
        while running:
            yield _result(running.popleft())

    def _make(self) -> Any:
        import ray

        actor: Any = ray.remote(_EncoderActor).options(
            num_cpus=1,
            num_gpus=self._num_gpus,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=_AT_A_TIME,
        )
        return actor.remote(self._factory)


class _EncoderActor:
    """Encodes batches of pages on some node; the model is opened by the first who needs it."""

    def __init__(self, factory: EncoderFactory) -> None:
        self._factory, self._lock = factory, threading.Lock()
        self._opened: PageEncoder | None = None

    def facts(self) -> EncoderFacts:
        """Return those of the encoder."""
        return EncoderFacts.of(self._encoder())

    def encode(self, store: Path, batch: PageBatch, pool_factor: int, fingerprint: str) -> list[np.ndarray]:
        """Return the vectors of a batch of pages.

        Raises:
            UserError: a page cannot be read, or the encoder is not the one of this fingerprint.
            InfrastructureError: this node does not see the store, or the encoder fails.
        """
        node, encoder = socket.gethostname(), self._encoder()
        if encoder.fingerprint != fingerprint:
            raise UserError(
                f"node {node} opens another model under the name of the encoder (fingerprint "
                f"{encoder.fingerprint[:12]}, not {fingerprint[:12]}): give all nodes the same weights"
            )
        try:
            documents = DocumentStore(store)
        except UserError as error:
            raise InfrastructureError(f"node {node} does not see the store: {error}") from error
        return encode_batch(encoder, batch, batch.contents(documents, encoder.content), pool_factor)

    def _encoder(self) -> PageEncoder:
        with self._lock:
            if self._opened is None:
                self._opened = self._factory()
            return self._opened


def _result(reference: Any) -> Any:
    """Return what an actor returns.

    Raises:
        InfrastructureError: Ray fails; what the actor raised is raised as it is.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise InfrastructureError(f"Ray failed: {error}") from error
