"""Configuration of the retriever of environments, and of where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section

KEY = "docagent.retriever"
"""Key of the section, for messages."""

OWN_CLASS = r"[\w.]+:\w+"
"""Pattern of the name of a user's own class: `package.module:CLASS`."""


class Backend(StrEnum):
    """Places where searches can run."""

    LOCAL = "local"
    """In every process that needs them."""
    RAY = "ray"
    """In actors that the run starts on its Ray cluster."""
    HTTP = "http"
    """On a server that is running already."""


class SearchEngine(StrEnum):
    """Engines that store the vectors of an index and search them."""

    EMBEDDED = "embedded"
    """Files that every process maps into memory; exact search."""
    QDRANT = "qdrant"
    """A Qdrant server."""
    LANCEDB = "lancedb"
    """LanceDB tables in a folder or an object store, read by any number of processes."""


class EngineConfig(Section):
    """The engine of an index of vectors. The index records its engine, so nothing has to be set."""

    kind: SearchEngine | None = None
    """The engine that the index must use; null: any."""
    url: str | None = None
    """Address of the engine, such as `http://host:6333`, if not the one that the index records."""
    token_env: str | None = None
    """Environment variable with a server's token, if not the one that the index records."""
    timeout_s: float = Field(30.0, gt=0)
    """Maximum seconds for one request to a server."""


class QueryEncoderConfig(Section):
    """The model that encodes queries: always the one with which the index was built."""

    model: str | None = None
    """Folder or name of that model on this machine, if not the one that the index records; the
    weights must be the same.
    """
    device: str | None = None
    """Torch device: `cpu`, `cuda`, `cuda:1`; null: `cpu`."""
    endpoint: str | None = None
    """A vLLM pooling server (`http://host:port`) to use instead of a model in the process."""
    threads: int | None = Field(None, ge=1)
    """Torch threads on the CPU; null: one."""


class RerankConfig(Section):
    """A second model that reads query and page together and rescores the best pages of a search."""

    model: str
    """A name from `docagent-rl index models`, a file that specifies a reranker, or the folder of a
    checkpoint that contains such a file.
    """
    checkpoint: str | None = None
    """Folder of that model on this machine, if not the one in its specification."""
    candidates: int = Field(50, ge=1)
    """Number of the retriever's pages to score; more if a search asks for more pages."""
    device: str | None = None
    """Torch device: `cpu`, `cuda`, `cuda:1`; null: `cpu`."""
    endpoint: str | None = None
    """A vLLM server that scores (`http://host:port`), to use instead of a model in the process."""
    threads: int | None = Field(None, ge=1)
    """Torch threads on the CPU; null: one."""


class ServiceConfig(Section):
    """Search actors (`backend: ray`) or a search server (`backend: http`)."""

    url: str | None = None
    """Address of the server."""
    token_env: str | None = None
    """Environment variable with the server's token."""
    replicas: int = Field(1, ge=1)
    """Number of actors, each with the whole index."""
    num_cpus: float = Field(1.0, ge=0)
    """Ray CPUs per actor."""
    num_gpus: float = Field(0.0, ge=0)
    """GPUs per actor."""
    shared_gpu_gib: float | None = Field(None, gt=0)
    """GiB that the models of an actor may take of a GPU of the trainer, beside its rollout server;
    null: none. Ray reserves nothing for it, and `recipes budget` counts it.
    """
    max_waiting: int = Field(256, ge=1)
    """Maximum number of queries that wait at an actor; further ones have to retry. (A server has an
    option for it.)
    """
    timeout_s: float = Field(10.0, gt=0)
    """Maximum seconds for one attempt."""
    connections: int = Field(64, ge=1)
    """Maximum number of searches in flight per worker."""
    threads: int = Field(8, ge=1)
    """Number of searches that an actor runs at the same time."""
    start_s: float = Field(600.0, gt=0)
    """Maximum seconds until all actors have opened their index."""
    cached: int = Field(4096, ge=0)
    """Number of results that every worker caches (none for BM25 in the process); an index does not
    change during a run.
    """


class RetrieverConfig(Section):
    """Settings of a retriever."""

    kind: str = Field("bm25", pattern=rf"^(\w+|{OWN_CLASS})$")
    """`bm25`, `dense`, `late_interaction`, `hybrid`, or `package.module:CLASS` of your own."""
    model: str | None = None
    """The model that the index must have: a name from `docagent-rl index models`, a file that
    specifies an encoder, or the folder of a checkpoint that contains such a file; null: any.
    """
    index: Path | None = None
    """Folder of the index (`docagent-rl index build`); kinds that combine others have none."""
    backend: Backend = Backend.LOCAL
    engine: EngineConfig = Field(default_factory=EngineConfig)
    encoder: QueryEncoderConfig = Field(default_factory=QueryEncoderConfig)
    candidates: int = Field(200, ge=1)
    """Number of pages that an engine's first stage selects for exact scoring, in searches over all
    documents.
    """
    device: str | None = None
    """Torch device, such as `cuda`, to which the vectors of an embedded index are moved, and which
    scores all of them exactly; null: the CPU scores them from files mapped into memory.
    """
    parts: dict[str, RetrieverConfig] = Field(default_factory=dict)
    """The retrievers whose scores a `hybrid` combines, by names of your choice."""
    weight: float | None = Field(None, gt=0)
    """Weight of a part's scores in a `hybrid`; null: 1.5 for `bm25`, 1 for others."""
    depth: int = Field(200, ge=1)
    """Number of pages that each part of a `hybrid` ranks."""
    rerank: RerankConfig | None = None
    """Null: pages are not reranked."""
    service: ServiceConfig = Field(default_factory=ServiceConfig)
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of a class of your own."""
    attempts: int = Field(3, ge=1)
    """Maximum number of attempts per query before the trajectory counts as failed."""
    deadline_s: float = Field(30.0, gt=0)
    """Maximum seconds for all attempts together, from the start of the first."""

    @field_validator("parts", "options", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        # Hydra merges mappings, so a recipe's entries can only be removed by null, not by {}
        return {} if value is None else value

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kind == "bm25" and self.model is not None:
            raise ValueError(
                f"kind bm25 has no model ({self.model}): +retriever=bm25 sets all that it needs"
            )
        if self.kind == "bm25" and self.device is not None:
            raise ValueError(f"kind bm25 has no vectors to move to device {self.device}")
        if self.service.shared_gpu_gib is not None:
            if self.backend is not Backend.RAY:
                raise ValueError("service.shared_gpu_gib is of actors: set backend=ray")
            if self.service.num_gpus > 0:
                raise ValueError(
                    "service.num_gpus reserves a GPU for an actor, and service.shared_gpu_gib uses "
                    "one of the trainer: set one of them"
                )
        if self.backend is Backend.HTTP and self.service.url is None:
            raise ValueError("backend http needs service.url")
        if self.backend is not Backend.LOCAL and self.service.timeout_s > self.deadline_s:
            raise ValueError(
                f"service.timeout_s={self.service.timeout_s:g} of one attempt is longer than "
                "deadline_s of all attempts"
            )
        return self

    def required_index(self, key: str = KEY) -> Path:
        """Return the folder of the index.

        Raises:
            UserError: The configuration names none.
        """
        if self.index is None:
            raise UserError(f"{key}.index is null, but a retriever of kind {self.kind} needs one")
        return self.index

    def ranking_settings(self) -> dict[str, Any]:
        """Return the settings that affect rankings, without those of place and speed."""
        names = {"kind", "model", "candidates", "weight", "depth", "options"}
        found = self.model_dump(
            mode="json", include={**dict.fromkeys(names, True), "engine": {"kind"}}
        )
        if self.rerank is not None:
            found["rerank"] = self.rerank.model_dump(mode="json", include={"model", "candidates"})
        return {
            **found,
            "parts": {name: part.ranking_settings() for name, part in sorted(self.parts.items())},
        }

    def flat(self, key: str) -> Iterator[tuple[str, RetrieverConfig]]:
        """Yield this section and the sections of parts that this process opens, with their keys."""
        yield key, self
        if self.backend is not Backend.HTTP:
            for name, part in self.parts.items():
                yield from part.flat(f"{key}.parts.{name}")

    def indexes(self, key: str) -> Iterator[tuple[str, Path]]:
        """Yield every index that this process reads, with the key of its path; see `flat`."""
        for name, section in self.flat(key):
            if section.index is not None and section.backend is not Backend.HTTP:
                yield f"{name}.index", section.index
