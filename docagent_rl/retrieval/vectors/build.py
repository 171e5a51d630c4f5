"""Makes an index of vectors, or brings one up to date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.bank import Bank, make_bank
from docagent_rl.retrieval.vectors.encoding import (
    EncoderFactory,
    LocalVectors,
    PageVectors,
    batches_of,
    pages_by_document,
)
from docagent_rl.retrieval.vectors.existing import current_index
from docagent_rl.retrieval.vectors.first_stage import Part, make_candidates
from docagent_rl.retrieval.vectors.header import (
    Kind,
    Source,
    StoredDocument,
    VectorHeader,
    VectorSettings,
    stored_documents,
)
from docagent_rl.retrieval.vectors.placing import in_order, placed_documents, rows_of_shards
from docagent_rl.retrieval.vectors.plan import Plan, make_plan
from docagent_rl.retrieval.vectors.progress import PageProgress
from docagent_rl.retrieval.vectors.shards import Shard, found_shards, open_bank, write_shard

TWO_STAGES_FROM = 500_000
"""Vectors: fewer are all scored, which takes some 20 ms of a processor for 20 vectors of a query."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did.

    Args:
        documents: of the index.
        pages: of the index.
        encoded: pages that were encoded; the others were there.
    """

    documents: int
    pages: int
    encoded: int


def build_index(
    store: DocumentStore,
    encoder: EncoderFactory | PageVectors,
    path: Path,
    *,
    kind: Kind,
    spec: Mapping[str, Any] | None = None,
    settings: VectorSettings | None = None,
    progress: bool = False,
    replace: bool = False,
    two_stages_from: int = TWO_STAGES_FROM,
) -> Built:
    """See `VectorIndex.build`."""
    vectors = encoder if isinstance(encoder, PageVectors) else LocalVectors(encoder)
    facts = vectors.facts()
    try:
        source = Source(
            kind=kind,
            encoder=facts.fingerprint,
            content=facts.content,
            dim=facts.dim,
            settings=settings or VectorSettings(),
        )
    except ValidationError as error:
        raise UserError(f"index of kind {kind.value}: {error.errors()[0]['msg']}") from error
    wanted = list(stored_documents(store, source.content))
    if not wanted:
        raise UserError(f"{store.path} holds no documents: ingest some first")
    files = IndexFiles(path)
    with files.claimed():
        job = _Job(files, store, source, vectors, PageProgress(sum(d.pages for d in wanted), shown=progress))
        current = current_index(files, source, replace=replace)
        return job.run(wanted, current, facts.spec if spec is None else spec, two_stages_from)


class _Job:
    def __init__(
        self,
        files: IndexFiles,
        store: DocumentStore,
        source: Source,
        vectors: PageVectors,
        progress: PageProgress,
    ) -> None:
        self._files, self._store, self._source = files, store, source
        self._vectors, self._progress = vectors, progress
        self._banks: dict[str, Bank] = {}

    def run(
        self,
        wanted: Sequence[StoredDocument],
        current: VectorHeader | None,
        spec: Mapping[str, Any],
        two_stages_from: int,
    ) -> Built:
        # what killed builds were writing; the shards that they finished are of use
        self._files.sweep({path.name for path in self._files.root.iterdir() if path.suffix != ".tmp"})
        listed = set() if current is None else set(current.shards)
        found = {shard.name: shard for shard in found_shards(self._files, self._source)}
        plan = make_plan(
            wanted,
            [found[name] for name in ([] if current is None else current.shards) if name in found],
            [shard for name, shard in found.items() if name not in listed],
        )
        encoded = sum(document.pages for group in plan.encoded for document in group)
        with self._progress as progress:
            progress.skip(sum(document.pages for document in wanted) - encoded)
            shards = in_order(self._shards(plan))
        previous = {} if current is None else current.candidates
        placed = placed_documents(wanted, shards)
        candidates: dict[str, str] = {}
        if sum(shard.header.vectors for shard in shards) >= two_stages_from:
            parts = [
                Part(shard.name, self._bank(shard), rows)
                for shard, rows in zip(shards, rows_of_shards(placed, shards), strict=True)
            ]
            candidates = make_candidates(self._files, self._source, parts, previous)
        header = VectorHeader(
            kind=self._source.kind,
            source=self._source,
            spec=dict(spec),
            documents=placed,
            shards={shard.name: shard.digest for shard in shards},
            candidates=candidates,
        )
        text = header.sealed().encode()
        if not self._files.header.is_file() or self._files.header.read_bytes() != text:
            atomic_write(self._files.header, text)
        self._files.sweep({*header.shards, *header.candidates})
        return Built(len(wanted), sum(document.pages for document in wanted), encoded)

    def _shards(self, plan: Plan) -> list[Shard]:
        """Of the next version."""
        made = list(plan.shards)
        for group in plan.copied:
            pages = (
                self._bank(shard).alone(first + number)
                for document in group
                for shard, first in [plan.sources[document.doc_id]]
                for number in range(document.pages)
            )
            made.append(write_shard(self._files, self._source, group, pages))
        documents = [document for group in plan.encoded for document in group]
        batches = batches_of(documents)
        vectors = self._vectors.run(self._store, batches, self._source.settings.pool_factor)
        pages = pages_by_document(batches, vectors)
        made += [
            write_shard(self._files, self._source, group, self._encoded(group, pages))
            for group in plan.encoded
        ]
        return made

    def _encoded(
        self, group: Sequence[StoredDocument], found: Iterator[tuple[str, Iterator[np.ndarray]]]
    ) -> Iterator[Bank]:
        for _ in group:
            _, pages = next(found)
            for page in pages:
                yield make_bank([page], self._source.dim, self._source.settings.precision)
                self._progress.done(1)

    def _bank(self, shard: Shard) -> Bank:
        if shard.name not in self._banks:
            self._banks[shard.name] = open_bank(self._files, shard)
        return self._banks[shard.name]
