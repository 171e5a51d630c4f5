"""An index of vectors, read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.index_files import IndexFiles, rebuild_command
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.vectors.bank import Bank, open_bank
from docagent_rl.retrieval.vectors.candidates import Candidates
from docagent_rl.retrieval.vectors.header import VectorHeader, stored_documents
from docagent_rl.retrieval.vectors.maxsim import page_scores, scattered_scores


class VectorIndex:
    """Vectors of all pages of a store, mapped into memory. Reading changes nothing: any thread may.

    Args:
        files: the folder.
        header: what is in it.
        bank: the vectors.
        candidates: the first stage of searches over all documents, where there is one.
    """

    def __init__(
        self, files: IndexFiles, header: VectorHeader, bank: Bank, candidates: Candidates | None
    ) -> None:
        self.path, self.header, self.bank, self.candidates = files.root, header, bank, candidates
        self.rows = PageRows([d.doc_id for d in header.documents], [d.pages for d in header.documents])
        self.filled = np.diff(bank.offsets) > 0

    @classmethod
    def open(cls, path: str | Path) -> VectorIndex:
        """Read an index.

        Every file is read to its end and compared with its checksum, which takes about a second for 1 to 2
        GB; files that this process has verified are not read again.

        Raises:
            UserError: there is no index, or it is damaged or of another version.
        """
        return IndexFiles(Path(path)).read(cls._load)

    @classmethod
    def _load(cls, data: bytes, files: IndexFiles) -> VectorIndex:
        header = files.parse(VectorHeader, data)
        folder, pages = files.verified_folder(header.files), sum(d.pages for d in header.documents)
        try:
            bank = open_bank(folder)
            candidates = None if header.trained_on is None else Candidates.open(folder, pages)
        except (OSError, ValueError) as error:
            raise files.damaged(folder, str(error)) from error
        return cls(files, header, bank, candidates)

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return len(self.rows)

    def check(self, store: DocumentStore) -> None:
        """Check that a store still holds the pages that were indexed.

        Raises:
            UserError: it does not; the message names a document that differs.
        """
        before = {d.doc_id: d for d in self.header.documents}
        now = {d.doc_id: d for d in stored_documents(store, self.header.source.content)}
        changed = sorted(doc_id for doc_id in before | now if before.get(doc_id) != now.get(doc_id))
        if changed:
            raise UserError(
                f"the index {self.path} does not belong to {store.path} as it is now: {len(changed)} of its "
                f"documents were added, removed or ingested again, such as {changed[0]!r}: "
                f"{rebuild_command(self.path, store.path)} (pages that are in it are not encoded again)"
            )

    def info(self) -> dict[str, object]:
        """Return counts, sizes and the model, by what people call them."""
        source = self.header.source
        return {
            "kind": self.header.kind.value,
            "documents": len(self.header.documents),
            "pages": self.num_pages,
            "pages without vectors": int((~self.filled).sum()),
            "vectors": len(self.bank.vectors),
            "dimensions": source.dim,
            "precision": source.settings.precision.value,
            "pool factor": source.settings.pool_factor,
            "content": source.content.value,
            "clusters": len(self.candidates.clusters) if self.candidates else 0,
            "bytes": sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file()),
            "encoder": source.encoder,
            "spec": self.header.spec,
        }

    def scores(self, queries: Sequence[np.ndarray], doc_id: str | None = None) -> np.ndarray:
        """Return exact scores of a document's pages, or of all.

        Args:
            queries: float32 of shape (t, dim) each.
            doc_id: of the document; None: of all.

        Returns:
            float32 of shape (queries, pages), pages in the order of `PageRef`.

        Raises:
            UserError: there is no such document.
        """
        return page_scores(self.bank, queries, *self.rows.span(doc_id))

    def scores_of(self, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return exact scores of some pages for a query, float32, in the order of `rows` (int64)."""
        return scattered_scores(self.bank, query, rows)
