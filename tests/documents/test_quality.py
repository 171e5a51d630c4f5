"""The line about how well a document was read."""

import pytest

from docagent_rl.documents.manifest import (
    BY_LAYOUT,
    Finding,
    Manifest,
    PageEntry,
    Source,
    TextReading,
    TextReason,
    TextSource,
    Unread,
)
from docagent_rl.documents.quality import Trait, quality, quality_summary
from docagent_rl.documents.references import OutlineEntry

SCANNED = TextReading(TextSource.OCR, TextReason.EMPTY, "an engine")
NOTHING = TextReading(TextSource.NONE, TextReason.NOTHING_READ, "an engine")
SOUND = TextReading(TextSource.LAYER, TextReason.SOUND)


def page(*findings: Finding, reading: TextReading = SOUND) -> PageEntry:
    text = None if reading is NOTHING else "b" * 64
    return PageEntry(10, 20, "a" * 64, text, reading, findings=findings)


def manifest(*pages: PageEntry, settings: str = "pdf/1", doc_id: str = "a", **changes) -> Manifest:
    source = Source("a.pdf", "c" * 64)
    fields = {
        "doc_id": doc_id,
        "source": source,
        "settings": settings,
        "software": "",
        "outline": (),
    }
    return Manifest(**fields | changes, pages=pages)


def test_a_line_names_pages_that_need_something_and_counts_the_others():
    scan = manifest(
        page(reading=SCANNED),
        page(Finding.TURNED, Finding.DOUBTFUL_OCR, reading=SCANNED),
        page(reading=NOTHING),
        page(Finding.MISSING_GLYPHS),
    )
    found = quality(scan)
    assert (found.num_pages, found.poor) == (4, 3)
    assert found.pages == {
        Trait.UNREAD: (3,),
        Trait.DOUBTFUL: (2,),
        Trait.MISSING_GLYPHS: (4,),
        Trait.OCR: (1, 2),
        Trait.TURNED: (2,),
    }
    line = found.line()
    assert line.startswith("a, 4 pages: pictures without text on page 3 (describe")
    assert "2 read by OCR; 1 turned upright" in line
    doubtful = quality(manifest(*[page(Finding.DOUBTFUL_OCR, reading=SCANNED)] * 7))
    assert "doubtful OCR on pages 1, 2, 3, 4, 5 and 2 more (" in doubtful.line()
    assert quality(manifest(page())).line() == "a, 1 page: no problems"


@pytest.mark.parametrize("finding", Finding)
def test_every_finding_has_a_word(finding):
    assert len(quality(manifest(page(finding))).pages) == 1


def test_headings_are_missed_in_long_pdfs_that_were_not_asked_for_them():
    pages = [page()] * 10
    assert quality(manifest(*pages)).is_flat
    assert not quality(manifest(*pages[1:])).is_flat
    assert not quality(
        manifest(*[page(reading=SCANNED)] * 10)
    ).is_flat  # a scan has no layout to read
    assert not quality(manifest(*pages, outline=(OutlineEntry("One", 1, 1),))).is_flat
    assert not quality(manifest(*pages, settings=f"pdf/1{BY_LAYOUT}")).is_flat
    assert not quality(manifest(*pages, settings="images/1")).is_flat
    failed = manifest(
        *pages, settings=f"pdf/1{BY_LAYOUT}", unread=Unread("Java is broken", may_pass=True)
    )
    assert "no headings (Java is broken)" in quality(failed).line()


def test_a_summary_names_the_worst_and_counts_the_rest():
    bad = page(Finding.DOUBTFUL_OCR, reading=SCANNED)
    found = [
        quality(manifest(*[bad] * count, page(), doc_id=f"d{count}")) for count in (1, 3, 2, 0)
    ]
    turned = [page(Finding.TURNED, reading=SCANNED)] * 10
    found.append(quality(manifest(page(), *turned, doc_id="long")))
    first, rest, turned, flat = quality_summary(found, most=1)
    assert first.startswith("d3, 4 pages: doubtful OCR on pages 1, 2, 3 (")
    assert rest == "and 2 more documents with 3 such pages"
    assert turned == "10 pages turned upright"
    assert flat.startswith("1 PDF of 10 pages or more has no bookmarks")
    assert quality_summary([quality(manifest(page()))]) == []
