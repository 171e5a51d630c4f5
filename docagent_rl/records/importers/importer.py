"""What a benchmark's importer says and does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from docagent_rl.records.importers.library import NativeDocument
from docagent_rl.records.importers.native import Draft, NativeRow
from docagent_rl.records.importers.paging import PageBase
from docagent_rl.records.importers.source import Source
from docagent_rl.records.record import Split


class Importer(ABC):
    """Reads a benchmark as it was downloaded; pages, boxes, documents and counts are everybody's business."""

    name: ClassVar[str]
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {}
    """Rows that the released files have, by dataset and split."""
    base: ClassVar[PageBase] = PageBase.ONE
    """As documented."""
    base_certain: ClassVar[bool] = False
    """It was checked on the released files, or follows from how pages are named."""
    sizes: ClassVar[bool] = False
    """Boxes need the sizes of pages."""
    corpus: ClassVar[bool] = False
    """All documents are needed, whether a question is about them or not: retrieval runs over all."""

    @abstractmethod
    def rows(self, source: Source) -> Iterator[NativeRow]:
        """Every row of every file of questions.

        Raises:
            UserError: there is none, or it cannot be read as a whole.
        """

    @abstractmethod
    def draft(self, row: NativeRow) -> Draft:
        """A row as a question.

        Raises:
            Skip: it cannot be one; the reason is counted.
        """

    @abstractmethod
    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """The documents of some questions, as far as they are there, by id; more do no harm."""

    def settle(self, drafts: Sequence[Draft]) -> None:
        """Change what needs all questions to be known; nothing by default."""
        del drafts
