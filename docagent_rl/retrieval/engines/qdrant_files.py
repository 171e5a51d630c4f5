"""Points in a folder, through Qdrant's engine in this process (qdrant-edge-py)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.retrieval.engines.collection import answering
from docagent_rl.retrieval.engines.qdrant import WHOLE, Chosen, Layout, Nearest, Point

if TYPE_CHECKING:
    import qdrant_edge

_ENGINE = "Qdrant's engine"
_AT_A_TIME = 1000


class FilePoints:
    """`Points` of a folder, which one process at a time can open; what is written survives its death."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder, self._layout = folder, layout
        self._lock = threading.Lock()
        self._opened: qdrant_edge.EdgeShard | None = None

    def exists(self) -> bool:
        """See `Points`."""
        return (self._folder / "edge_config.json").is_file()

    def create(self) -> None:
        """See `Points`."""
        import qdrant_edge

        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        shard = self._open(
            lambda: qdrant_edge.EdgeShard.create(
                str(self._folder), qdrant_edge.EdgeConfig(vectors=self._vectors())
            )
        )
        for field in ("record", "doc"):
            schema = qdrant_edge.PayloadSchemaType.Keyword
            shard.update(qdrant_edge.UpdateOperation.create_field_index(field, schema))

    def _vectors(self) -> dict[str, qdrant_edge.EdgeVectorParams]:
        import qdrant_edge

        def params(**options: Any) -> qdrant_edge.EdgeVectorParams:
            return qdrant_edge.EdgeVectorParams(
                size=self._layout.dim,
                distance=qdrant_edge.Distance.Dot,
                datatype=qdrant_edge.VectorStorageDatatype.Float16,
                multivector_config=qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim),
                **options,
            )

        int8 = qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8, always_ram=True)
        first = params(on_disk=True, quantization_config=int8)
        if not self._layout.late:
            return {WHOLE: first}
        none = qdrant_edge.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=10_000)
        return {WHOLE: params(on_disk=True, hnsw_config=none), self._layout.first: first}

    def upsert(self, points: Sequence[Point]) -> None:
        """See `Points`."""
        import qdrant_edge

        made = [qdrant_edge.Point(point.key, dict(point.vectors), dict(point.payload)) for point in points]
        self._update(qdrant_edge.UpdateOperation.upsert_points(made))

    def delete(self, chosen: Chosen) -> None:
        """See `Points`."""
        import qdrant_edge

        self._update(qdrant_edge.UpdateOperation.delete_points_by_filter(_filter(chosen)))

    def _update(self, operation: qdrant_edge.UpdateOperation) -> None:
        with answering(_ENGINE):
            self._shard.update(operation)

    def payloads(self, chosen: Chosen) -> Iterator[Mapping[str, Any]]:
        """See `Points`."""
        import qdrant_edge

        after, condition = None, _filter(chosen)
        while True:
            asked = qdrant_edge.ScrollRequest(
                offset=after, limit=_AT_A_TIME, filter=condition, with_payload=True
            )
            with answering(_ENGINE):
                found, after = self._shard.scroll(asked)
            yield from (record.payload or {} for record in found)
            if after is None:
                return

    def count(self, chosen: Chosen) -> int:
        """See `Points`."""
        import qdrant_edge

        with answering(_ENGINE):
            return self._shard.count(qdrant_edge.CountRequest(exact=True, filter=_filter(chosen)))

    def nearest(self, asked: Nearest) -> list[tuple[Mapping[str, Any], float]]:
        """See `Points`."""
        import qdrant_edge

        chosen, stages = _filter(asked.chosen), []
        exact = qdrant_edge.SearchParams(exact=True)
        if asked.candidates is not None:
            first = qdrant_edge.Query.Nearest(asked.query, using=self._layout.first)
            params = qdrant_edge.SearchParams(hnsw_ef=asked.candidates)
            stages = [qdrant_edge.Prefetch(limit=asked.candidates, query=first, params=params, filter=chosen)]
            exact = qdrant_edge.SearchParams(quantization=qdrant_edge.QuantizationSearchParams(ignore=True))
        request = qdrant_edge.QueryRequest(
            limit=asked.limit,
            query=qdrant_edge.Query.Nearest(asked.query, using=WHOLE),
            prefetches=stages,
            filter=chosen,
            params=exact,
            with_payload=["doc", "page"],
        )
        with answering(_ENGINE):
            return [(point.payload or {}, point.score) for point in self._shard.query(request)]

    def finish(self) -> None:
        """See `Points`."""
        with answering(_ENGINE):
            self._shard.optimize()
            self._shard.flush()

    def facts(self) -> Mapping[str, JsonValue]:
        """See `Points`."""
        found = self._shard.info()
        return {"segments": found.segments_count, "vectors in graphs": found.indexed_vectors_count}

    def close(self) -> None:
        """See `Points`."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @property
    def _shard(self) -> qdrant_edge.EdgeShard:
        import qdrant_edge

        return self._open(lambda: qdrant_edge.EdgeShard.load(str(self._folder)))

    def _open(self, make: Callable[[], qdrant_edge.EdgeShard]) -> qdrant_edge.EdgeShard:
        """Return the shard, opened once.

        Raises:
            InfrastructureError: another process has it, or its files are damaged.
        """
        with self._lock:
            if self._opened is None:
                try:
                    self._opened = make()
                except Exception as error:  # the package has no class of its own
                    raise InfrastructureError(
                        f"{self._folder}: Qdrant's files cannot be opened ({error}); one process at a time "
                        "can: let a run search in one actor (docagent.retriever.backend=ray), or use a server"
                    ) from error
            return self._opened


def _filter(chosen: Chosen) -> qdrant_edge.Filter:
    import qdrant_edge

    def field(name: str, match: Any) -> qdrant_edge.FieldCondition:
        return qdrant_edge.FieldCondition(name, match=match)

    must: list[Any] = [field("record", qdrant_edge.MatchValue(chosen.record.value))]
    if chosen.doc_ids:
        must.append(field("doc", qdrant_edge.MatchAny(list(chosen.doc_ids))))
    without: list[Any] = [qdrant_edge.HasIdCondition(set(chosen.without))] if chosen.without else []
    return qdrant_edge.Filter(must=must, must_not=without)
