"""Messages on how well the pages of a document were read, and what to do if they were not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.text import counted
from docagent_rl.documents.manifest import Finding, Manifest, PageEntry, TextReason, TextSource

_LONG = 10
"""Number of pages from which a PDF without headings is worth a message."""
_NAMED = 5
"""Number of pages that are named; the others are counted."""


class Trait(StrEnum):
    """Traits of a page that are worth knowing, in the words of messages."""

    UNREAD = "pictures without text"
    DOUBTFUL = "doubtful OCR"
    MISSING_GLYPHS = "letters that are not drawn"
    XFA_STUB = "a form (XFA) that is not drawn"
    WRONG_MAP = "a text layer with wrong letters"
    OCR = "read by OCR"
    TURNED = "turned upright"
    REDRAWN = "drawn by the second renderer"


REMEDIES = {
    Trait.UNREAD: "describe what they show (`docagent-rl describe`), or scan sharper",
    Trait.DOUBTFUL: "compare with the picture; scan at 200 dpi or more, or add a text layer with "
    "ocrmypdf if the script is not Latin, Chinese or Japanese",
    Trait.MISSING_GLYPHS: "embed the fonts when the PDF is written, or install them here",
    Trait.XFA_STUB: "open it in Acrobat and print it to PDF",
}
"""Advice about the traits for which pages may be misread."""
_BY_FINDING = {
    Finding.DOUBTFUL_OCR: Trait.DOUBTFUL,
    Finding.MISSING_GLYPHS: Trait.MISSING_GLYPHS,
    Finding.XFA_STUB: Trait.XFA_STUB,
    Finding.WRONG_MAP: Trait.WRONG_MAP,
    Finding.TURNED: Trait.TURNED,
    Finding.REDRAWN: Trait.REDRAWN,
}


@dataclass(frozen=True, slots=True)
class Quality:
    """A record of how well the pages of a document were read."""

    doc_id: str
    num_pages: int
    pages: Mapping[Trait, tuple[int, ...]]
    """Numbers of the pages with each trait that any page has, in the order of `Trait`."""
    is_flat: bool
    """True for a long PDF without bookmarks whose layout was not read for headings."""
    unread: str
    """The reason why the layout could not be read; empty if it was read or was not needed."""

    @property
    def poor(self) -> int:
        """Number of pages that a reader may get wrong."""
        return len({page for trait in REMEDIES for page in self.pages.get(trait, ())})

    def line(self) -> str:
        """Return the quality as one line, with what to do."""
        parts = [self._part(trait) for trait in self.pages]
        if self.unread:
            parts.append(f"no headings ({self.unread})")
        if self.is_flat:
            parts.append("no bookmarks: `--layout --replace` looks for headings")
        return (
            f"{self.doc_id}, {counted(self.num_pages, 'page')}: {'; '.join(parts) or 'no problems'}"
        )

    def _part(self, trait: Trait) -> str:
        numbers = self.pages[trait]
        if trait not in REMEDIES:
            return f"{len(numbers)} {trait}"
        listed = ", ".join(map(str, numbers[:_NAMED]))
        if (more := len(numbers) - _NAMED) > 0:
            listed += f" and {more} more"
        return f"{trait} on page{'s' * (len(numbers) > 1)} {listed} ({REMEDIES[trait]})"


def quality(manifest: Manifest) -> Quality:
    """Return how well a stored document was read, using only its manifest."""
    found: dict[Trait, list[int]] = {trait: [] for trait in Trait}
    for number, page in enumerate(manifest.pages, start=1):
        for trait in _traits(page):
            found[trait].append(number)
    is_pdf = manifest.settings.startswith("pdf/")
    has_layer = any(
        each.reading and each.reading.source is TextSource.LAYER for each in manifest.pages
    )
    may_have_headings = is_pdf and has_layer and len(manifest.pages) >= _LONG
    return Quality(
        doc_id=manifest.doc_id,
        num_pages=len(manifest.pages),
        pages={trait: tuple(numbers) for trait, numbers in found.items() if numbers},
        is_flat=may_have_headings and manifest.is_bookmarked and not manifest.outline,
        unread=manifest.unread.reason if manifest.unread else "",
    )


def quality_summary(found: Iterable[Quality], most: int = 10) -> Sequence[str]:
    """Return lines about pages that were read badly.

    The `most` documents with the most such pages have lines of their own; the others are counted.
    """
    every = list(found)
    poor = sorted((each for each in every if each.poor), key=lambda each: (-each.poor, each.doc_id))
    lines = [each.line() for each in poor[:most]]
    if rest := poor[most:]:
        pages = sum(each.poor for each in rest)
        lines.append(
            f"and {counted(len(rest), 'more document')} with {counted(pages, 'such page')}"
        )
    if turned := sum(len(each.pages.get(Trait.TURNED, ())) for each in every):
        lines.append(f"{counted(turned, 'page')} turned upright")
    if flat := sum(each.is_flat for each in every):
        remedy = "`--layout --replace` looks for headings"
        have = "has" if flat == 1 else "have"
        lines.append(
            f"{counted(flat, 'PDF')} of {_LONG} pages or more {have} no bookmarks: {remedy}"
        )
    return lines


def _traits(page: PageEntry) -> list[Trait]:
    traits = [_BY_FINDING[finding] for finding in page.findings]
    if page.reading is not None:
        if page.reading.source is TextSource.OCR:
            traits.append(Trait.OCR)
        if page.text is None and page.reading.reason is TextReason.NOTHING_READ:
            traits.append(Trait.UNREAD)
    return traits
