"""An index of vectors, read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.build import TWO_STAGES_FROM, Built, build_index
from docagent_rl.retrieval.vectors.candidates import Candidates
from docagent_rl.retrieval.vectors.encoding import EncoderFactory, PageVectors
from docagent_rl.retrieval.vectors.first_stage import open_candidates
from docagent_rl.retrieval.vectors.header import Kind, VectorHeader, VectorSettings
from docagent_rl.retrieval.vectors.info import index_info
from docagent_rl.retrieval.vectors.maxsim import NO_SCORE, page_scores, scattered_scores
from docagent_rl.retrieval.vectors.sealed_headers import damaged_vectors
from docagent_rl.retrieval.vectors.shards import HEADER as SHARD_HEADER
from docagent_rl.retrieval.vectors.shards import open_bank, read_shard
from docagent_rl.retrieval.vectors.verify import check_store, index_damages, read_vector_header


class VectorIndex:
    """Vectors of all pages of a store, mapped into memory. Reading changes nothing: any thread may.

    Args:
        files: where it is.
        header: what is in it.
        banks: of its shards, in their order.
        candidates: the first stage of searches over all documents, where there is one.
    """

    def __init__(
        self, files: IndexFiles, header: VectorHeader, banks: Sequence[Bank], candidates: Candidates | None
    ) -> None:
        self._files = files
        self.header = header
        self.candidates = candidates
        self._banks = banks
        self.rows = PageRows([d.doc_id for d in header.documents], [d.pages for d in header.documents])
        self._shard = np.repeat([d.shard for d in header.documents], [d.pages for d in header.documents])
        self._page = np.concatenate([np.arange(d.first, d.first + d.pages) for d in header.documents])
        self._placed = {document.doc_id: document for document in header.documents}
        self.filled = np.concatenate(
            [np.diff(banks[d.shard].offsets[d.first : d.first + d.pages + 1]) > 0 for d in header.documents]
        )

    @classmethod
    def build(
        cls,
        store: DocumentStore,
        encoder: EncoderFactory | PageVectors,
        path: str | Path,
        *,
        kind: Kind,
        spec: Mapping[str, Any] | None = None,
        settings: VectorSettings | None = None,
        progress: bool = False,
        replace: bool = False,
        two_stages_from: int = TWO_STAGES_FROM,
    ) -> Built:
        """Encode the pages of a store, or those that are new in it since the index was built.

        A build that was killed goes on from its finished shards; one beside another waits for it. The files
        are the same ones, byte by byte, wherever and by how many workers pages were encoded, as far as the
        encoder gives the same vectors for the same batch.

        Args:
            store: the documents.
            encoder: makes the encoder in this process; or a `RayVectors`, for a cluster.
            path: of the folder.
            kind: what the vectors stand for.
            spec: what the encoder is opened with for queries; by default what it says of itself.
            settings: how vectors are stored.
            progress: show a bar on standard error.
            replace: another index in the folder gives way, and damaged parts of one are made anew.
            two_stages_from: vectors from which searches over all documents have a first stage.

        Raises:
            UserError: the folder holds something else, another index, or a damaged one.
            InfrastructureError: a node or the encoder fails.
        """
        return build_index(
            store,
            encoder,
            Path(path),
            kind=kind,
            spec=spec,
            settings=settings,
            progress=progress,
            replace=replace,
            two_stages_from=two_stages_from,
        )

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> VectorIndex:
        """Read an index.

        Args:
            path: of the folder.
            verify: read every file to its end and compare it with its checksum, which takes about a second
                for 1 to 2 GB; files that this process has verified are not read again. Without it, altered
                vectors go unseen.

        Raises:
            UserError: there is no index, or it is damaged or of another version.
        """

        def load(data: bytes, files: IndexFiles) -> VectorIndex:
            return cls._load(data, files, verify=verify)

        return IndexFiles(Path(path)).read(load)

    @classmethod
    def _load(cls, data: bytes, files: IndexFiles, *, verify: bool) -> VectorIndex:
        header = read_vector_header(data, files)
        if verify:
            for path, problem in index_damages(files, header).items():
                raise damaged_vectors(path, problem, files)
        banks = []
        for name, digest in header.shards.items():
            shard = read_shard(files, name, digest)
            path = files.root / name / SHARD_HEADER
            if shard.header.source != header.source:
                raise damaged_vectors(path, "it is of another index", files)
            # its pages are as many as its offsets tell, which `open_bank` has checked
            banks.append(open_bank(files, shard))
        for document in header.documents:
            if document.first + document.pages > banks[document.shard].num_pages:
                problem = f"document {document.doc_id!r} is not where it says"
                raise damaged_vectors(files.header, problem, files)
        pages = sum(document.pages for document in header.documents)
        candidates = None
        for name, digest in header.candidates.items():
            candidates = open_candidates(files, name, digest, header.source, pages)
        return cls(files, header, banks, candidates)

    @property
    def path(self) -> Path:
        """The folder."""
        return self._files.root

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return len(self.rows)

    def check(self, store: DocumentStore) -> None:
        """Check that a store still holds the pages that were indexed.

        Raises:
            UserError: it does not; the message names a document that differs.
        """
        check_store(self.path, self.header, store)

    def info(self) -> dict[str, object]:
        """What is in it, for people."""
        return index_info(self.path, self.header, self._banks, self.candidates)

    def scores(
        self, queries: Sequence[np.ndarray], doc_id: str | None = None, *, device: str = "cpu"
    ) -> np.ndarray:
        """Exact scores of a document's pages, or of all.

        Args:
            queries: float32 of shape (t, dim) each.
            doc_id: of the document; None: of all.
            device: see `maxsim.page_scores`.

        Returns:
            float32 of shape (queries, pages), pages in the order of `PageRef`.

        Raises:
            UserError: there is no such document.
        """
        if doc_id is not None:
            self.rows.span(doc_id)
            place = self._placed[doc_id]
            last = place.first + place.pages
            return page_scores(self._banks[place.shard], queries, place.first, last, device=device)
        scores = np.full((len(queries), self.num_pages), NO_SCORE, np.float32)
        for position, bank in enumerate(self._banks):
            mine = np.flatnonzero(self._shard == position)
            scores[:, mine] = page_scores(bank, queries, device=device)[:, self._page[mine]]
        return scores

    def scores_of(self, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Exact scores of some pages for a query, float32, in the order of `rows` (int64)."""
        scores = np.empty(len(rows), np.float32)
        shards = self._shard[rows]
        for position in np.unique(shards).tolist():
            mine = np.flatnonzero(shards == position)
            scores[mine] = scattered_scores(self._banks[position], query, self._page[rows[mine]])
        return scores
