"""The report of an ingest."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A source that was left out."""

    name: str
    """The file or folder, relative to the ingested folder."""
    reason: str


@dataclass(slots=True)
class IngestReport:
    """The outcome of an ingest, by document id, sorted."""

    ingested: list[str] = field(default_factory=list)
    """Documents stored by this run, whole."""
    replaced: list[str] = field(default_factory=list)
    """Those among `ingested` of which the store held another version (other content or settings)."""
    repaired: list[str] = field(default_factory=list)
    """Those among `ingested` of which the store held this version, with damaged or missing pages."""
    reread: list[str] = field(default_factory=list)
    """Documents whose stored pages were kept and the text of some read anew."""
    skipped: list[str] = field(default_factory=list)
    """Documents that the store held already."""
    kept: list[str] = field(default_factory=list)
    """Documents of which the store holds another version, and which were not to be replaced."""
    failed: list[FailedDocument] = field(default_factory=list)
    pages: int = 0
    """Pages of the ingested documents."""
    resumed_pages: int = 0
    """Those among `pages` that an interrupted run had stored."""
    ocr_pages: int = 0
    """Pages stored or read anew that have their text by OCR."""
    textless_pages: int = 0
    """Pages stored or read anew that have no text."""

    def sort(self) -> None:
        """Sort all lists."""
        for ids in (self.ingested, self.replaced, self.repaired, self.reread, self.skipped, self.kept):
            ids.sort()
        self.failed.sort(key=lambda failure: failure.name)
