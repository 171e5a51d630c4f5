"""Points at a server of Qdrant, through its client."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.retrieval.base import NotTakenError, ServerFaultError
from docagent_rl.retrieval.engines.qdrant import WHOLE, Chosen, Layout, Nearest, Point

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

_AT_A_TIME = 1000
_BUSY = (429, 503)
_CLOSED = (401, 403)


class ServerPoints:
    """`Points` of the collection of a name."""

    def __init__(self, client: QdrantClient, name: str, layout: Layout) -> None:
        self._client, self._name, self._layout = client, name, layout

    def exists(self) -> bool:
        """See `Points`."""
        with _answering():
            return self._client.collection_exists(self._name)

    def create(self) -> None:
        """See `Points`."""
        from qdrant_client import models

        with _answering():
            if self._client.collection_exists(self._name):
                self._client.delete_collection(self._name)
            self._client.create_collection(self._name, vectors_config=self._vectors())
            for field in ("record", "doc"):
                self._client.create_payload_index(
                    self._name, field, field_schema=models.PayloadSchemaType.KEYWORD
                )

    def _vectors(self) -> dict[str, models.VectorParams]:
        from qdrant_client import models

        def params(**options: Any) -> models.VectorParams:
            return models.VectorParams(
                size=self._layout.dim,
                distance=models.Distance.DOT,
                datatype=models.Datatype.FLOAT16,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                **options,
            )

        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        first = params(on_disk=True, quantization_config=models.ScalarQuantization(scalar=int8))
        if not self._layout.late:
            return {WHOLE: first}
        whole = params(on_disk=True, hnsw_config=models.HnswConfigDiff(m=0))
        return {WHOLE: whole, self._layout.first: first}

    def upsert(self, points: Sequence[Point]) -> None:
        """See `Points`."""
        from qdrant_client import models

        structs = [
            models.PointStruct(
                id=point.key,
                vector={name: vectors.tolist() for name, vectors in point.vectors.items()},
                payload=dict(point.payload),
            )
            for point in points
        ]
        with _answering():
            self._client.upsert(self._name, structs, wait=True)

    def delete(self, chosen: Chosen) -> None:
        """See `Points`."""
        from qdrant_client import models

        with _answering():
            self._client.delete(self._name, models.FilterSelector(filter=_filter(chosen)), wait=True)

    def payloads(self, chosen: Chosen) -> Iterator[Mapping[str, Any]]:
        """See `Points`."""
        after = None
        while True:
            with _answering():
                found, after = self._client.scroll(
                    self._name,
                    scroll_filter=_filter(chosen),
                    limit=_AT_A_TIME,
                    offset=after,
                    with_payload=True,
                )
            yield from (record.payload or {} for record in found)
            if after is None:
                return

    def count(self, chosen: Chosen) -> int:
        """See `Points`."""
        with _answering():
            return self._client.count(self._name, count_filter=_filter(chosen), exact=True).count

    def nearest(self, asked: Nearest) -> list[tuple[Mapping[str, Any], float]]:
        """See `Points`."""
        from qdrant_client import models

        query, chosen = asked.query.tolist(), _filter(asked.chosen)
        stage, exact = None, models.SearchParams(exact=True)
        if asked.candidates is not None:
            stage = models.Prefetch(
                query=query,
                using=self._layout.first,
                filter=chosen,
                limit=asked.candidates,
                params=models.SearchParams(hnsw_ef=asked.candidates),
            )
            exact = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
        with _answering():
            found = self._client.query_points(
                self._name,
                query=query,
                using=WHOLE,
                prefetch=stage,
                query_filter=chosen,
                limit=asked.limit,
                search_params=exact,
                with_payload=["doc", "page"],
            )
        return [(point.payload or {}, point.score) for point in found.points]

    def finish(self) -> None:
        """See `Points`; a server does it by itself."""

    def facts(self) -> Mapping[str, JsonValue]:
        """See `Points`."""
        with _answering():
            found = self._client.get_collection(self._name)
        return {"status": found.status.value, "segments": found.segments_count}

    def close(self) -> None:
        """See `Points`; connections of the client end with it."""


def connect(url: str, *, token: str | None, timeout_s: float) -> QdrantClient:
    """Return a client of a server; nothing is sent yet.

    Raises:
        ModuleNotFoundError: qdrant-client is not installed.
    """
    from qdrant_client import QdrantClient

    return QdrantClient(url=url, api_key=token, timeout=round(timeout_s) or 1, check_compatibility=False)


def _filter(chosen: Chosen) -> models.Filter:
    from qdrant_client import models

    must: list[Any] = [
        models.FieldCondition(key="record", match=models.MatchValue(value=chosen.record.value))
    ]
    if chosen.doc_ids:
        must.append(models.FieldCondition(key="doc", match=models.MatchAny(any=list(chosen.doc_ids))))
    without: list[Any] = [models.HasIdCondition(has_id=list(chosen.without))] if chosen.without else []
    return models.Filter(must=must, must_not=without)


@contextmanager
def _answering() -> Generator[None]:
    """Turn the client's errors into those of a search.

    Raises:
        NotTakenError: nobody is there, or he is busy.
        ServerFaultError: the server failed.
        InfrastructureError: it lets nobody in without a token.
    """
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except ResponseHandlingException as error:
        raise NotTakenError(f"Qdrant cannot be reached: {error.source}") from error
    except UnexpectedResponse as error:
        problem = f"Qdrant answers {error.status_code}: {error.content[:200].decode(errors='replace')}"
        if error.status_code in _CLOSED:
            named = "name the variable with its token in docagent.retriever.engine.token_env"
            raise InfrastructureError(f"{problem}: {named}") from error
        raise (NotTakenError if error.status_code in _BUSY else ServerFaultError)(problem) from error
