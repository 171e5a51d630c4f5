"""Vectors of pages by the nodes of a Ray cluster, through Ray Data."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.vectors.encoding import (
    EncoderFactory,
    EncoderFacts,
    PageBatch,
    encoded,
)

_ROW = "row"


@dataclass(frozen=True, slots=True)
class RayResources:
    """What encoding takes of a cluster.

    Args:
        encoders: actors that each hold the model, at most; they take the batches in turn.
        num_cpus: of Ray's, an actor.
        num_gpus: an actor; a part where several fit on one.
        decoding_cpus: of a task that reads and decodes pages. It must differ from what an actor asks for:
            Ray Data joins steps that ask for the same, and a GPU would wait for pages to be decoded.
    """

    encoders: int = 1
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    decoding_cpus: float = 0.5

    def __post_init__(self) -> None:
        if self.encoders < 1:
            raise UserError(f"encoders={self.encoders}: expected at least 1")
        if not self.num_gpus and self.num_cpus == self.decoding_cpus:
            raise UserError(
                f"num_cpus and decoding_cpus are both {self.num_cpus}: with different ones pages are decoded "
                "while others are encoded"
            )


class RayVectors:
    """Encodes on the cluster that this process is connected to (`ray.init`).

    Batches are decoded by tasks on CPUs and encoded by a pool of actors. What comes of a batch does not
    depend on the actor or on their number, and batches come back in their order. Ray starts anew what was on
    a node that died. All nodes see the store under the same path.

    Args:
        factory: of the encoder; runs in the actors.
        resources: of the actors.

    Raises:
        InfrastructureError: this process is not connected to a cluster.
    """

    def __init__(self, factory: EncoderFactory, resources: RayResources | None = None) -> None:
        import ray

        if not ray.is_initialized():
            raise InfrastructureError("no Ray cluster: connect to one with ray.init before encoding on it")
        self._factory = factory
        self._resources = resources or RayResources()
        self._facts: EncoderFacts | None = None

    def facts(self) -> EncoderFacts:
        """See `PageVectors`; a worker opens the encoder, for this process may have no GPU."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        if self._facts is None:
            resources = self._resources
            ask = ray.remote(num_cpus=resources.num_cpus, num_gpus=resources.num_gpus)(_facts)
            try:
                self._facts = ray.get(ask.remote(self._factory))
            except RayTaskError as error:
                raise error.as_instanceof_cause() from error
            except RayError as error:
                raise InfrastructureError(f"Ray failed: {error}") from error
        return self._facts

    def run(
        self, store: DocumentStore, batches: Sequence[PageBatch], pool_factor: int
    ) -> Iterator[list[np.ndarray]]:
        """See `PageVectors`.

        Raises:
            UserError: a page cannot be read, or a worker has another model.
            InfrastructureError: a node does not see the store, the encoder or Ray fails.
        """
        from ray.exceptions import RayError

        if not batches:
            return
        try:
            for row in self._dataset(store.path, batches, pool_factor).iter_rows():
                answer = row[_ROW]
                if answer.error is not None:
                    raise answer.error
                yield list(answer.vectors)
        except RayError as error:
            raise InfrastructureError(f"Ray failed: {error}") from error

    def _dataset(self, store: Path, batches: Sequence[PageBatch], pool_factor: int) -> Any:
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        resources, facts = self._resources, self.facts()
        actors = min(resources.encoders, len(batches))
        # a batch a block: what a block holds is decoded by one task, and handed on as soon as it is done
        rows = ray.data.from_items([{_ROW: batch} for batch in batches], override_num_blocks=len(batches))
        return rows.map_batches(
            _Decode(store, facts), batch_size=1, batch_format="numpy", num_cpus=resources.decoding_cpus
        ).map_batches(
            _Encode,
            fn_constructor_args=(self._factory, facts, pool_factor),
            batch_size=1,
            batch_format="numpy",
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=actors, max_size=actors),
            num_cpus=resources.num_cpus,
            num_gpus=resources.num_gpus or None,
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    """What became of a batch: Ray Data makes arrays of what it knows, but not of this."""

    batch: PageBatch
    pages: tuple[Any, ...] = ()
    vectors: tuple[np.ndarray, ...] = ()
    error: Exception | None = None
    """What is to be raised where the run was asked for."""


@dataclass(frozen=True, slots=True)
class _Decode:
    """What a task does: read the pages of a batch."""

    store: Path
    facts: EncoderFacts

    def __call__(self, rows: Any) -> Any:
        (batch,) = rows[_ROW]
        try:
            store = DocumentStore(self.store)
        except UserError as error:
            missing = InfrastructureError(f"node {socket.gethostname()} does not see the store: {error}")
            return {_ROW: [_Answer(batch, error=missing)]}
        try:
            return {_ROW: [_Answer(batch, tuple(batch.contents(store, self.facts.content)))]}
        except (UserError, InfrastructureError) as error:
            return {_ROW: [_Answer(batch, error=error)]}


class _Encode:
    """What an actor does: encode the pages of a batch at a time."""

    def __init__(self, factory: EncoderFactory, facts: EncoderFacts, pool_factor: int) -> None:
        self._pool_factor = pool_factor
        self._error: Exception | None = None
        try:
            self._encoder = factory()
            found = EncoderFacts.of(self._encoder)
            if found.fingerprint != facts.fingerprint:
                raise UserError(
                    f"node {socket.gethostname()} opens another model under the name of the encoder "
                    f"(fingerprint {found.fingerprint[:12]}, not {facts.fingerprint[:12]}): give all nodes "
                    "the same weights"
                )
        except Exception as error:  # whatever it is: the driver raises it
            self._error = error

    def __call__(self, rows: Mapping[str, Any]) -> dict[str, list[_Answer]]:
        (answer,) = rows[_ROW]
        if answer.error is not None:
            return {_ROW: [answer]}
        try:
            if self._error is not None:
                raise self._error
            vectors = encoded(self._encoder, answer.batch, answer.pages, self._pool_factor)
            return {_ROW: [_Answer(answer.batch, vectors=tuple(vectors))]}
        except Exception as error:  # as above
            return {_ROW: [_Answer(answer.batch, error=error)]}


def _facts(factory: EncoderFactory) -> EncoderFacts:
    return EncoderFacts.of(factory())
