"""Encoding of pages as vectors, in this process or on a Ray cluster."""

from __future__ import annotations

import math
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.retrieval.encoders.facts import EncoderFacts
from docagent_rl.retrieval.encoders.local import LocalEncoder, PageInput
from docagent_rl.retrieval.vectors.index import StoredDocument

EncoderFactory = Callable[[], LocalEncoder]
"""A picklable function that creates the encoder in the process that uses it."""

_BATCHES = 4
"""Number of batches per window, within which pages of similar size share a batch."""
_AT_A_TIME = 2
"""Number of windows per actor: the next one is prepared while the model works on the other."""


Window = tuple[PageRef, ...]
"""Pages of one or several documents that are divided into batches together."""


class PageVectors:
    """An encoder of windows of pages, in this process and one after the other."""

    def __init__(self, factory: EncoderFactory) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._opened: LocalEncoder | None = None

    def _encoder(self) -> LocalEncoder:
        """Return the encoder, which is opened when it is first needed."""
        with self._lock:
            self._opened = self._opened or self._factory()
            return self._opened

    def facts(self) -> EncoderFacts:
        """Return the properties of the encoder."""
        return EncoderFacts.of(self._encoder())

    def run(self, store: DocumentStore, windows: Sequence[Window]) -> Iterator[list[np.ndarray]]:
        """Yield the vectors of the pages of each window, in order, float32 of shape (n, dim)."""
        return encode_windows(self._encoder(), store, windows)


def encode_documents(
    vectors: PageVectors, store: DocumentStore, documents: Sequence[StoredDocument]
) -> Iterator[tuple[StoredDocument, list[np.ndarray]]]:
    """Yield documents with the vectors of each of their pages; show a progress bar on terminals."""
    windows = list(page_windows(documents, vectors.facts()))
    found = chain.from_iterable(vectors.run(store, windows))
    pages = sum(document.pages for document in documents)
    shown = iter(
        track(found, "encoding pages", pages, console=Console(stderr=True), transient=True)
    )
    for document in documents:
        yield document, list(islice(shown, document.pages))
    next(shown, None)  # ends the progress bar


def page_windows(documents: Iterable[StoredDocument], facts: EncoderFacts) -> Iterator[Window]:
    """Yield windows of pages across documents, each of several full batches, except the last.

    They depend only on the documents and the encoder, and are the same for any number of workers.
    """
    pages = (
        PageRef(document.doc_id, number)
        for document in documents
        for number in range(1, document.pages + 1)
    )
    while window := tuple(islice(pages, _BATCHES * facts.batch_size)):
        yield window


def encode_windows(
    encoder: LocalEncoder, store: DocumentStore, windows: Iterable[Window]
) -> Iterator[list[np.ndarray]]:
    """Yield the vectors of the pages of each window, before they are rounded for storage.

    Raises:
        UserError: The store no longer has these pages, an object is damaged, or vectors are not
            finite.
    """

    def page_input(ref: PageRef) -> PageInput:
        page = store.page(ref)
        if encoder.content is PageContent.IMAGE:
            return PageInput(str(ref), math.prod(page.size), page.image)
        return PageInput(str(ref), 0, page.searched_text)

    return encoder.encode_windows([page_input(ref) for ref in window] for window in windows)


class RayVectors(PageVectors):
    """An encoder of windows of pages on the Ray cluster of this process (`ray.init`).

    The result for a window depends neither on the actor nor on the number of actors, and windows
    are returned in order. Ray restarts the actors of a node that died. All nodes must see the store
    under the same path. `encoders` is the maximum number of actors, each with a copy of the model;
    `num_gpus`, the GPUs per actor, may be a fraction.

    Raises:
        InfrastructureError: This process is not connected to a cluster.
    """

    def __init__(
        self, factory: EncoderFactory, *, encoders: int = 1, num_gpus: float = 0.0
    ) -> None:
        import ray

        if not ray.is_initialized():
            raise InfrastructureError(
                "no Ray cluster: connect to one with ray.init before encoding on it"
            )
        super().__init__(factory)
        self._encoders = encoders
        self._num_gpus = num_gpus
        self._actor = self._make()

    def facts(self) -> EncoderFacts:
        """See `PageVectors`; an actor opens the encoder, since this process may have no GPU."""
        return _result(self._actor.facts.remote())

    def run(self, store: DocumentStore, windows: Sequence[Window]) -> Iterator[list[np.ndarray]]:
        """See `PageVectors`.

        Raises:
            UserError: A page cannot be read, or a worker has another model.
            InfrastructureError: A node does not see the store, or the encoder or Ray fails.
        """
        import ray

        fingerprint = self.facts().fingerprint
        free = deque([self._actor] * _AT_A_TIME)
        others = [self._make() for _ in range(min(self._encoders, len(windows)) - 1)]
        # nothing waits for an actor for which the cluster has no resources
        starting = {actor.facts.remote(): actor for actor in others}
        busy: dict[Any, Any] = {}
        running: deque[Any] = deque()
        for window in windows:
            while not free:
                (done,), _ = ray.wait([*starting, *busy], num_returns=1)
                free += [starting.pop(done)] * _AT_A_TIME if done in starting else [busy.pop(done)]
            actor = free.popleft()
            reference = actor.encode.remote(store.path, window, fingerprint)
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


class _EncoderActor(PageVectors):
    """An actor that encodes windows of pages, several at a time."""

    def encode(self, store: Path, window: Window, fingerprint: str) -> list[np.ndarray]:
        """Return the vectors of the pages of a window.

        Raises:
            UserError: A page cannot be read, or the encoder has another fingerprint.
            InfrastructureError: This node does not see the store, or the encoder fails.
        """
        node = socket.gethostname()
        encoder = self._encoder()
        if encoder.fingerprint != fingerprint:
            raise UserError(
                f"node {node} opens another model under the name of the encoder (fingerprint "
                f"{encoder.fingerprint[:12]}, not {fingerprint[:12]}): give all nodes the same "
                "weights"
            )
        try:
            documents = DocumentStore(store)
        except UserError as error:
            raise InfrastructureError(f"node {node} does not see the store: {error}") from error
        (found,) = encode_windows(encoder, documents, [window])
        return found


def _result(reference: Any) -> Any:
    """Return the result of an actor's task, or raise its error."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from error
    except RayError as error:
        raise InfrastructureError(f"Ray failed: {error}") from error
