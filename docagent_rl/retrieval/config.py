"""Settings of retrievers: the one that the environments ask, and where it runs."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section

KEY = "docagent.retriever"
"""The key of the section, for messages."""

OWN_CLASS = r"[\w.]+:\w+"
"""The name of a class of the user's own: `package.module:CLASS`."""


class Backend(StrEnum):
    """The place where searches run."""

    LOCAL = "local"
    """Every process that asks searches by itself."""
    RAY = "ray"
    """Actors search that the run starts on its Ray cluster."""
    HTTP = "http"
    """A server searches that runs already."""


class SearchEngine(StrEnum):
    """Engines that hold the vectors of an index and rank by them."""

    EMBEDDED = "embedded"
    """Files that every process maps into memory; exact."""
    QDRANT = "qdrant"
    """A server of Qdrant."""
    LANCEDB = "lancedb"
    """Tables of LanceDB in a folder or an object store, read by any number of processes."""


class EngineConfig(Section):
    """The engine of an index of vectors. Its folder names it, so that nothing has to be set."""

    kind: SearchEngine | None = None
    """The engine that the index has to be of; null: any."""
    url: str | None = None
    """Address at which this process reaches it, if not where the index says: `http://host:6333`."""
    token_env: str | None = None
    """Name of the variable that holds the token of a server, if not the one that the index
    names.
    """
    timeout_s: float = Field(30.0, gt=0)
    """Seconds of one request to a server."""


class QueryEncoderConfig(Section):
    """The model that turns queries into vectors; by default the one that the index was built
    with.
    """

    model: str | None = None
    """Place of that model on this machine, if not where the index says; its weights must be the
    same.
    """
    device: str | None = None
    """A device of torch: `cpu`, `cuda`, `cuda:1`; null: `cpu`."""
    endpoint: str | None = None
    """A server of vLLM that pools (`http://host:port`), instead of a model in the process."""
    threads: int | None = Field(None, ge=1)
    """Threads of torch on the CPU; null: one."""


class RerankConfig(Section):
    """A second model that scores the best pages of a search anew, each together with the query."""

    model: str
    """A name of `docagent-rl index models`, a file that describes a reranker, or the folder of a
    checkpoint that holds one.
    """
    checkpoint: str | None = None
    """Place of that model on this machine, if not where its description says."""
    candidates: int = Field(50, ge=1)
    """Pages of the retriever that are scored; a search for more pages scores as many."""
    device: str | None = None
    """A device of torch: `cpu`, `cuda`, `cuda:1`; null: `cpu`."""
    endpoint: str | None = None
    """A server of vLLM that scores (`http://host:port`), instead of a model in the process."""
    threads: int | None = Field(None, ge=1)
    """Threads of torch on the CPU; null: one."""


class ServiceConfig(Section):
    """Actors (`backend: ray`) or a server (`backend: http`)."""

    url: str | None = None
    """The server's address."""
    token_env: str | None = None
    """Name of the variable that holds the server's token."""
    replicas: int = Field(1, ge=1)
    """Actors, each with the whole index."""
    num_cpus: float = Field(1.0, ge=0)
    """CPUs of Ray an actor."""
    num_gpus: float = Field(0.0, ge=0)
    max_waiting: int = Field(256, ge=1)
    """Queries that wait at an actor; more are told to come again (a server has an option for
    it).
    """
    timeout_s: float = Field(10.0, gt=0)
    """Seconds of one try."""
    connections: int = Field(64, ge=1)
    """Searches in flight at most, for every worker."""
    threads: int = Field(8, ge=1)
    """Searches that an actor runs at a time."""
    start_s: float = Field(600.0, gt=0)
    """Until all actors have opened their index."""
    cached: int = Field(4096, ge=0)
    """Answers that every worker keeps (none of BM25 in the process); an index stays as it is for a
    run.
    """


class RetrieverConfig(Section):
    """Settings of a retriever."""

    kind: str = Field("bm25", pattern=rf"^(\w+|{OWN_CLASS})$")
    """`bm25`, `dense`, `late_interaction`, `hybrid`, or `package.module:CLASS` of your own."""
    model: str | None = None
    """The model of the index: a name of `docagent-rl index models`, a file that describes an
    encoder, or the folder of a checkpoint that holds one; null: any.
    """
    index: Path | None = None
    """Directory of the index (`docagent-rl index build`); kinds that combine others have none."""
    backend: Backend = Backend.LOCAL
    engine: EngineConfig = Field(default_factory=EngineConfig)
    encoder: QueryEncoderConfig = Field(default_factory=QueryEncoderConfig)
    candidates: int = Field(200, ge=1)
    """Pages that an engine's first stage of a search over all documents hands to exact scoring."""
    device: str | None = None
    """A device of torch that holds the vectors of an embedded index and scores all of them exactly
    (`cuda`); null: processors do, from files mapped into memory.
    """
    parts: dict[str, RetrieverConfig] = Field(default_factory=dict)
    """The retrievers of a `hybrid` whose scores are joined, by a name of your choice."""
    weight: float | None = Field(None, gt=0)
    """Weight of a part's scores in a `hybrid`; null: 2 of `bm25`, 1 of others."""
    depth: int = Field(200, ge=1)
    """Pages that each part of a `hybrid` ranks."""
    rerank: RerankConfig | None = None
    """Null: pages stay as the retriever ranks them."""
    service: ServiceConfig = Field(default_factory=ServiceConfig)
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of a class of your own."""
    attempts: int = Field(3, ge=1)
    """Tries a query before the trajectory counts as failed."""
    deadline_s: float = Field(30.0, gt=0)
    """Seconds for all tries together, from the moment that the first begins."""

    @field_validator("parts", "options", mode="before")
    @classmethod
    def _cleared(cls, value: Any) -> Any:
        # Hydra merges mappings: null takes the place of what a recipe set, {} changes nothing
        return {} if value is None else value

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kind == "bm25" and self.model is not None:
            raise ValueError(
                f"kind bm25 reads no model ({self.model}): +retriever=bm25 sets all it needs"
            )
        if self.kind == "bm25" and self.device is not None:
            raise ValueError(f"kind bm25 has no vectors for device {self.device} to hold")
        if self.backend is Backend.HTTP and self.service.url is None:
            raise ValueError("backend http needs service.url")
        if self.backend is not Backend.LOCAL and self.service.timeout_s > self.deadline_s:
            raise ValueError(
                f"service.timeout_s={self.service.timeout_s:g} of one try is longer than "
                "deadline_s of all"
            )
        return self

    def required_index(self, key: str = KEY) -> Path:
        """Return the folder of the index.

        Raises:
            UserError: the configuration names none.
        """
        if self.index is None:
            raise UserError(f"{key}.index is null, and a retriever of kind {self.kind} reads one")
        return self.index

    def decisive(self) -> dict[str, Any]:
        """Return all that decides over ranks beside the index; not where and how fast they are
        made.
        """
        names = {"kind", "model", "candidates", "weight", "depth", "options"}
        found = self.model_dump(
            mode="json", include={**dict.fromkeys(names, True), "engine": {"kind"}}
        )
        if self.rerank is not None:
            found["rerank"] = self.rerank.model_dump(mode="json", include={"model", "candidates"})
        return {
            **found,
            "parts": {name: part.decisive() for name, part in sorted(self.parts.items())},
        }

    def flat(self, key: str) -> Iterator[tuple[str, RetrieverConfig]]:
        """Yield this section, whose key is given, and those of its parts that this process opens,
        with their keys.
        """
        yield key, self
        if self.backend is not Backend.HTTP:
            for name, part in self.parts.items():
                yield from part.flat(f"{key}.parts.{name}")

    def indexes(self, key: str) -> Iterator[tuple[str, Path]]:
        """Yield every index that this process reads, with the key that names it; see `flat`."""
        for name, section in self.flat(key):
            if section.index is not None and section.backend is not Backend.HTTP:
                yield f"{name}.index", section.index
