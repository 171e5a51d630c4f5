"""What an ingest has to do for a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents.chunks import PAGES_PER_CHUNK, ChunkTask, ProbedDocument
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.manifest import PageEntry
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.ocr import OcrSettings
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.page_text import is_current
from docagent_rl.documents.settings import RenderSettings
from docagent_rl.documents.sources import SourceDocument, SourceKind


@dataclass(frozen=True, slots=True)
class Ocr:
    """The OCR that is asked for."""

    settings: OcrSettings
    engine: str | None
    """Key of its engine; None when it is off."""

    def anew(self, pages: Sequence[PageEntry], *, replace: bool) -> frozenset[int]:
        """Numbers of the pages that are to be read anew; without `replace` only those that have no text."""
        return frozenset(
            number
            for number, page in enumerate(pages, start=1)
            if not is_current(page.reading, self.settings, self.engine) and (replace or page.text is None)
        )

    def key(self) -> str:
        """Everything that decides what is read."""
        return f"ocr={self.settings.mode.value} {self.engine}"


@dataclass(slots=True)
class Job:
    """A document being stored."""

    probed: ProbedDocument
    settings: RenderSettings
    limits: IngestLimits
    ocr: OcrSettings
    cache: OcrCache
    partial: Path
    missing: list[int]
    """First pages of the ranges that are not stored yet."""
    resumed_pages: int = 0
    failed: bool = False
    damaged: bool = False
    """The store holds this version of it with pages that are damaged or gone."""
    held: tuple[PageEntry, ...] = ()
    """The pages of the version that the store holds, if only texts are read anew."""
    anew: frozenset[int] = frozenset()
    """Numbers of those pages."""

    @property
    def source(self) -> SourceDocument:
        """What the document is made from."""
        return self.probed.source

    def starts(self) -> range:
        """First pages of all ranges."""
        return range(1, self.probed.num_pages + 1, PAGES_PER_CHUNK)

    def last(self, first: int) -> int:
        """Last page of the range that begins with page `first`."""
        return min(first + PAGES_PER_CHUNK - 1, self.probed.num_pages)

    def missing_pages(self) -> int:
        """Number of pages that are not stored yet."""
        return sum(self.last(first) - first + 1 for first in self.missing)

    def record(self, first: int) -> Path:
        """The record of the range that begins with page `first`."""
        return self.partial / f"{first}.json"

    def task(self, first: int, objects: ObjectStore) -> ChunkTask:
        """The work on the range that begins with page `first`."""
        last = self.last(first)
        part = slice(first - 1, last) if self.source.kind is SourceKind.IMAGES else slice(None)
        return ChunkTask(
            self.source.doc_id,
            self.source.kind,
            self.source.files[part],
            self.probed.stamp[part],
            first,
            last,
            self.settings,
            self.limits,
            self.ocr,
            objects,
            self.cache,
            self.record(first),
            self.held[first - 1 : last],
            self.anew,
        )
