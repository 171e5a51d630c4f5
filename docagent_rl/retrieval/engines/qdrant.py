"""A collection on a Qdrant server: one point per page, with all its vectors.

Qdrant computes MaxSim scores itself. For late interaction, each point has its vectors twice: whole,
and as means of 8 neighbours (`first`), over which a graph is built. A search over all documents
takes its candidates from the graph and scores them with the whole vectors; a search within a
document scores all its pages.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.http_client import is_loopback
from docagent_rl.retrieval.base import Hit, NotTakenError, Pages, ServerFaultError
from docagent_rl.retrieval.vectors.index import VectorKind

if TYPE_CHECKING:
    from docagent_rl.retrieval.engines.contents import CollectionHeader, VectorPage

WHOLE = "whole"
FIRST = "first"
"""Names of the vectors of a point."""
JOINED = 8
"""Number of neighbouring vectors that are one vector in the first stage."""
_NAMES = uuid.uuid5(uuid.NAMESPACE_DNS, "docagent-rl")
_PAYLOADS_AT_A_TIME = 1000
_NUMBERS_AT_A_TIME = 1 << 19
"""Maximum count of numbers in one request: some 8 MB as JSON, a quarter of a server's limit."""
_BUSY = (429, 503)
_CLOSED = (401, 403)


class QdrantCollection:
    """A collection of points, through Qdrant's client, with the methods of `LanceCollection`."""

    def __init__(self, client: QdrantClient, header: CollectionHeader) -> None:
        self._client = client
        self._name = header.collection
        self._dim = header.dim
        self._late = header.kind is VectorKind.LATE_INTERACTION

    def exists(self) -> bool:
        """See `LanceCollection`."""
        with _answering():
            return self._client.collection_exists(self._name)

    def create(self) -> None:
        """See `LanceCollection`."""
        with _answering():
            if self._client.collection_exists(self._name):
                self._client.delete_collection(self._name)
            self._client.create_collection(self._name, vectors_config=self._vectors())
            self._client.create_payload_index(self._name, "doc", models.PayloadSchemaType.KEYWORD)

    def _vectors(self) -> dict[str, models.VectorParams]:
        def params(**options: Any) -> models.VectorParams:
            return models.VectorParams(
                size=self._dim,
                distance=models.Distance.DOT,
                datatype=models.Datatype.FLOAT16,
                multivector_config=models.MultiVectorConfig(
                    comparator=models.MultiVectorComparator.MAX_SIM
                ),
                on_disk=True,
                **options,
            )

        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        first = params(quantization_config=models.ScalarQuantization(scalar=int8))
        if not self._late:
            return {WHOLE: first}
        return {WHOLE: params(hnsw_config=models.HnswConfigDiff(m=0)), FIRST: first}

    def pages(self) -> Iterator[tuple[PageRef, str]]:
        """See `LanceCollection`."""
        after = None
        while True:
            with _answering():
                found, after = self._client.scroll(
                    self._name, limit=_PAYLOADS_AT_A_TIME, offset=after
                )
            for payload in (each.payload or {} for each in found):
                yield PageRef(payload["doc"], payload["page"]), payload["digest"]
            if after is None:
                return

    def count(self) -> int:
        """See `LanceCollection`."""
        with _answering():
            return self._client.count(self._name, exact=True).count

    def add(self, pages: Sequence[VectorPage]) -> None:
        """See `LanceCollection`."""
        largest = max(page.vectors.size for page in pages)
        points = map(self._point, pages)
        size = max(1, _NUMBERS_AT_A_TIME // largest)
        with _answering():
            self._client.upload_points(self._name, points, batch_size=size, wait=True)

    def _point(self, page: VectorPage) -> models.PointStruct:
        vectors = {WHOLE: page.vectors.tolist()}
        if self._late:
            vectors[FIRST] = run_means(page.vectors).tolist()
        payload = {"doc": page.ref.doc_id, "page": page.ref.page, "digest": page.digest}
        return models.PointStruct(id=_key(page.ref), vector=vectors, payload=payload)

    def remove(self, doc_ids: Sequence[str]) -> None:
        """See `LanceCollection`."""
        with _answering():
            self._client.delete(
                self._name, models.FilterSelector(filter=_chosen(doc_ids)), wait=True
            )

    def search(
        self, query: np.ndarray, *, doc_id: str | None, top_k: int, exclude: Pages, candidates: int
    ) -> list[Hit]:
        """See `LanceCollection`."""
        excluded = [_key(ref) for ref in sorted(exclude) if doc_id in (None, ref.doc_id)]
        chosen = _chosen([] if doc_id is None else [doc_id], excluded)
        vectors = query.tolist()
        stage = None
        params = models.SearchParams(exact=True)
        if doc_id is None:
            candidates = max(top_k, candidates)
            stage = models.Prefetch(
                query=vectors,
                using=FIRST if self._late else WHOLE,
                filter=chosen,
                limit=candidates,
                params=models.SearchParams(hnsw_ef=candidates),
            )
            params = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
        with _answering():
            found = self._client.query_points(
                self._name,
                query=vectors,
                using=WHOLE,
                prefetch=stage,
                query_filter=chosen,
                limit=top_k,
                search_params=params,
                with_payload=["doc", "page"],
            )
        hits = ((each.payload or {}, each.score) for each in found.points)
        return [Hit(PageRef(payload["doc"], payload["page"]), score) for payload, score in hits]

    def finish(self) -> None:
        """See `LanceCollection`; a Qdrant server updates its index by itself."""


def connect_qdrant(url: str, *, token: str | None, timeout_s: float) -> QdrantClient:
    """Return a client for a server; nothing is sent yet."""
    return QdrantClient(
        url=url,
        api_key=token,
        timeout=round(timeout_s) or 1,
        check_compatibility=False,
        trust_env=not is_loopback(url),
    )


def run_means(vectors: np.ndarray, size: int = JOINED) -> np.ndarray:
    """Return the normalised means of runs of about `size` vectors: float32 (n, dim) to (m, dim)."""
    runs = np.array_split(vectors, max(1, round(len(vectors) / size)))
    means = np.stack([run.mean(0) for run in runs])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return means / np.where(lengths > 0, lengths, 1)


def _key(ref: PageRef) -> str:
    return str(uuid.uuid5(_NAMES, f"{ref.doc_id}\n{ref.page}"))


def _chosen(doc_ids: Sequence[str] = (), without: Sequence[str] = ()) -> models.Filter:
    """Return a filter for the points of some documents (by default all), without some keys."""
    must: list[Any] = []
    if doc_ids:
        must.append(models.FieldCondition(key="doc", match=models.MatchAny(any=list(doc_ids))))
    must_not: list[Any] = [models.HasIdCondition(has_id=list(without))] if without else []
    return models.Filter(must=must, must_not=must_not)


@contextmanager
def _answering() -> Generator[None]:
    """Turn the client's errors into those of a search.

    Raises:
        NotTakenError: The server cannot be reached or is busy.
        ServerFaultError: The server failed.
        InfrastructureError: The server requires a token.
    """
    try:
        yield
    except ResponseHandlingException as error:
        raise NotTakenError(f"Qdrant cannot be reached: {error.source}") from error
    except UnexpectedResponse as error:
        problem = (
            f"Qdrant returned HTTP {error.status_code}: "
            f"{error.content[:200].decode(errors='replace')}"
        )
        if error.status_code in _CLOSED:
            named = "name the variable with its token in docagent.retriever.engine.token_env"
            raise InfrastructureError(f"{problem}: {named}") from error
        raise (NotTakenError if error.status_code in _BUSY else ServerFaultError)(
            problem
        ) from error
