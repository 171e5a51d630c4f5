"""Pages as rows of arrays: the documents one after the other, each in page order."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from docagent_rl.documents import PageRef
from docagent_rl.documents.store import unknown_document


class PageRows:
    """Which row is which page.

    Args:
        doc_ids: of the documents, sorted.
        num_pages: of each document, from 1.
    """

    def __init__(self, doc_ids: Sequence[str], num_pages: Sequence[int]) -> None:
        self.doc_ids, self.num_pages = tuple(doc_ids), tuple(num_pages)
        self._positions = {doc_id: position for position, doc_id in enumerate(self.doc_ids)}
        # rows of document i: starts[i] to starts[i + 1]
        self._starts = np.concatenate([[0], np.cumsum(self.num_pages)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __iter__(self) -> Iterator[PageRef]:
        for doc_id, pages in zip(self.doc_ids, self.num_pages, strict=True):
            yield from (PageRef(doc_id, number) for number in range(1, pages + 1))

    def span(self, doc_id: str | None) -> tuple[int, int]:
        """Return first row of a document and the one behind its last; None: of all documents.

        Raises:
            UserError: there is no such document.
        """
        if doc_id is None:
            return 0, len(self)
        position = self._positions.get(doc_id)
        if position is None:
            raise unknown_document(doc_id, self.doc_ids, "the index")
        return int(self._starts[position]), int(self._starts[position + 1])

    def rows(self, refs: Collection[PageRef]) -> np.ndarray:
        """Return rows of pages, int64; unknown ones are left out."""
        rows = [
            self._starts[position] + ref.page - 1
            for ref in refs
            if (position := self._positions.get(ref.doc_id)) is not None
            and ref.page <= self.num_pages[position]
        ]
        return np.asarray(rows, dtype=np.int64)

    def ref(self, row: int) -> PageRef:
        """Return the page of a row."""
        position = int(np.searchsorted(self._starts, row, side="right")) - 1
        return PageRef(self.doc_ids[position], int(row - self._starts[position]) + 1)

    def parts(self, of: int) -> list[tuple[int, int]]:
        """Return rows of each part of the corpus: whole documents, in their order, of about as many pages.

        Args:
            of: parts; some are empty where there are fewer documents.
        """
        borders, done = [0], 0
        for doc_id in self.doc_ids:
            done = self.span(doc_id)[1]
            # a border follows the document that reaches it
            while len(borders) < of and done * of >= len(borders) * len(self):
                borders.append(done)
        borders += [len(self)] * (of + 1 - len(borders))
        borders[-1] = len(self)
        return list(itertools.pairwise(borders))
