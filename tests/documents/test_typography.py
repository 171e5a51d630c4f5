"""Headings by type, read by opendataloader-pdf from real files."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from docagent_rl.documents import OutlineEntry
from docagent_rl.documents.contents import typography
from docagent_rl.documents.contents.typography import kept_headings, typed_headings, with_numbered
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.manifest import Unread
from docagent_rl.documents.settings import (
    DocumentError,
    IngestLimits,
    OcrMode,
    RetryableDocumentError,
)
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import indexed_texts
from tests.documents.conftest import write_program
from tests.documents.here import files_of, ingest_here

TEXT = ("Helvetica", 10)
NEEDS_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")
PROSE = (
    "The harvest was good in most of the valleys this year, and prices",
    "fell a little after the rains.",
)


def write_pdf(path: Path, pages: Iterable[Iterable[tuple[str, str, float]]]) -> Path:
    """Write lines of text, font and size from top to bottom, with space above those that are not
    prose.
    """
    canvas = Canvas(str(path), pagesize=(595, 842))
    for page in pages:
        height = 780.0
        for text, font, size in page:
            height -= 14 if (font, size) == TEXT else 34
            canvas.setFont(font, size)
            canvas.drawString(72, height, text)
        canvas.showPage()
    canvas.save()
    return path


def section(
    title: str, font: str = "Helvetica-Bold", size: float = 15
) -> list[tuple[str, str, float]]:
    return [(title, font, size), *((line, *TEXT) for line in PROSE * 4)]


def outline_of(store: Path, doc_id: str) -> list[tuple[int, str, int | None]]:
    return [
        (each.level, each.title, each.page)
        for each in DocumentStore(store).document(doc_id).outline
    ]


@NEEDS_JAVA
def test_a_report_without_bookmarks_or_numbers_gets_an_outline(tmp_path):
    terms = [
        (f"term {n}", "Helvetica-Bold", 10) for n in range(9)
    ]  # as large as the text, and many
    pages = [
        [*section("Where the water goes"), *section("In the hills", size=12)],
        [*section("What it costs"), *terms],
        [*section("Who pays for it"), *section("2 A numbered line"), *terms],
        [(line, *TEXT) for line in PROSE * 4],
    ]
    (tmp_path / "in").mkdir()
    write_pdf(tmp_path / "in" / "report.pdf", pages)
    ingest_here(tmp_path / "in", tmp_path / "plain")
    assert outline_of(tmp_path / "plain", "report") == []
    ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert outline_of(tmp_path / "store", "report") == [
        (1, "Where the water goes", 1),
        (2, "In the hills", 1),
        (1, "What it costs", 2),
        (1, "Who pays for it", 3),
        (1, "2 A numbered line", 3),
    ]
    assert not DocumentStore(tmp_path / "store").document("report").is_bookmarked
    # a search finds a page by the heading that it stands under
    texts = list(indexed_texts(DocumentStore(tmp_path / "store").document("report")))
    assert texts[3].splitlines()[:2] == ["report", "2 A numbered line"]


@NEEDS_JAVA
def test_bookmarks_stay_and_a_scan_has_no_type(tmp_path, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    canvas = Canvas(str(folder / "marked.pdf"))
    for title in ("One", "Two", "Three"):
        canvas.bookmarkPage(title)
        canvas.addOutlineEntry(f"Bookmark {title}", title)
        canvas.drawString(72, 700, f"Words of page {title}")
        canvas.showPage()
    canvas.save()
    write_pdf(folder / "blank.pdf", [[]])
    monkeypatch.setattr(typography, "kept_headings", lambda _: pytest.fail("read without need"))
    report = ingest_here(folder, tmp_path / "store", by_layout=True)
    assert sorted(report.ingested) == ["blank", "marked"]
    assert DocumentStore(tmp_path / "store").document("marked").is_bookmarked
    # bookmarks stay as they are, and so does a document with them
    assert ingest_here(folder, tmp_path / "store", replace=False).skipped == ["marked"]
    assert [title for _, title, _ in outline_of(tmp_path / "store", "marked")] == [
        "Bookmark One",
        "Bookmark Two",
        "Bookmark Three",
    ]
    assert outline_of(tmp_path / "store", "blank") == []


@NEEDS_JAVA
def test_a_choice_of_headings_is_part_of_the_settings(tmp_path):
    (tmp_path / "in").mkdir()
    write_pdf(tmp_path / "in" / "report.pdf", [section("Alpha"), section("Beta"), section("Gamma")])
    ingest_here(tmp_path / "in", tmp_path / "store")
    kept = ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True, replace=False)
    assert kept.kept == ["report"]
    ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert [title for _, title, _ in outline_of(tmp_path / "store", "report")] == [
        "Alpha",
        "Beta",
        "Gamma",
    ]
    assert ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True).skipped == ["report"]


@NEEDS_JAVA
def test_a_document_that_the_reader_fails_on_is_stored_without_headings_and_named(
    tmp_path, monkeypatch
):
    (tmp_path / "in").mkdir()
    write_pdf(tmp_path / "in" / "report.pdf", [section("Alpha"), section("Beta"), section("Gamma")])
    monkeypatch.setattr(typography, "_JAVA", ("-Xmx1k",))  # too little for any program
    report = ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert (report.ingested, report.failed) == (["report"], [])
    (unread,) = report.unread
    assert unread.name == "report.pdf"
    assert "heap" in unread.reason
    assert outline_of(tmp_path / "store", "report") == []
    assert DocumentStore(tmp_path / "store").manifest("report").unread == Unread(
        unread.reason, may_pass=True
    )
    # as long as it fails it is tried again and named, and then it is whole
    again = ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert (again.skipped, again.unread, again.completed) == (["report"], [unread], [])
    monkeypatch.undo()
    again = ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert (again.skipped, again.unread, again.completed) == (["report"], [], ["report"])
    assert [title for _, title, _ in outline_of(tmp_path / "store", "report")] == [
        "Alpha",
        "Beta",
        "Gamma",
    ]
    ingest_here(tmp_path / "in", tmp_path / "at once", by_layout=True)
    assert files_of(tmp_path / "store") == files_of(tmp_path / "at once")


@pytest.mark.parametrize(
    ("does", "waited", "reason"),
    [
        ("while :; do :; done", 1000, "more than 1 s of processor time"),
        ("exec sleep 1000", 0, "did not end"),
        ("exit 1", 1000, "fails on it"),
    ],
)
def test_a_reader_that_is_slow_stuck_or_broken_may_pass(
    tmp_path, monkeypatch, does, waited, reason
):
    """The limit is on processor time, so a busy machine makes no difference."""
    write_program(tmp_path / "bin" / "java", does)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(typography, "_START_S", 0)
    monkeypatch.setattr(typography, "_WAITED", waited)
    with pytest.raises(RetryableDocumentError, match=reason):
        typed_headings(write_pdf(tmp_path / "report.pdf", [section("Alpha")]), 1)


@NEEDS_JAVA
def test_a_file_that_the_reader_cannot_read_is_not_tried_again(tmp_path):
    write_pdf(tmp_path / "whole.pdf", [section("Alpha")])
    (tmp_path / "cut.pdf").write_bytes((tmp_path / "whole.pdf").read_bytes()[:300])
    with pytest.raises(DocumentError, match="not a valid PDF") as caught:
        typed_headings(tmp_path / "cut.pdf", 1)
    assert not isinstance(caught.value, RetryableDocumentError)


@NEEDS_JAVA
def test_a_worker_reads_layouts_under_its_limits_whatever_a_file_is_called(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    write_pdf(Path("-f.pdf"), [section("Alpha"), section("Beta"), section("Gamma")])
    write_pdf(Path("Übersicht.pdf"), [section("Delta"), section("Epsilon"), section("Zeta")])
    monkeypatch.setenv("LC_ALL", "C")
    limits = IngestLimits(seconds=20, memory_gib=2)
    report = ingest(
        Path(), tmp_path / "store", workers=1, limits=limits, ocr=OcrMode.NEVER, by_layout=True
    )
    assert (report.ingested, report.unread) == (["-f", "Übersicht"], [])
    assert outline_of(tmp_path / "store", "-f")[0] == (1, "Alpha", 1)
    assert outline_of(tmp_path / "store", "Übersicht")[2] == (1, "Zeta", 3)


def test_what_is_missing_is_named_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(typography.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="Java 11"):
        ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    monkeypatch.setattr(typography, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"docagent-rl\[layout\]"):
        ingest_here(tmp_path / "in", tmp_path / "store", by_layout=True)
    assert not (tmp_path / "store").exists()


def heading(content, page, size=14.0, font="Bold", level=1):
    return {
        "type": "heading",
        "content": content,
        "page number": page,
        "font": font,
        "font size": size,
        "heading level": level,
    }


def paragraph(content, size=10.0, font="Roman"):
    return {
        "type": "paragraph",
        "content": content,
        "page number": 1,
        "font": font,
        "font size": size,
    }


def test_only_type_that_stands_out_is_a_heading():
    kids = [
        paragraph("words " * 50),
        heading("Summary", 1),
        heading("Proﬁles  of\nriders", 2, level=2, size=12),
        heading("small print of a chart", 2, size=8, level=5),
        heading("Words in the type of the text", 2, size=10.0, font="Roman", level=4),
        heading("Figure 3: A caption", 2, level=2, size=12),
        heading("A sentence that ends.", 2),
        heading("Lθ W = 3 + 4 (17)", 2),
        heading("> plot(x)", 2),
        heading(" ", 2),
        heading("x" * 121, 3),
        *(heading(f"term {'abcdefghij'[n]}", 3, size=10, level=3) for n in range(7)),
        {"type": "table", "rows": []},
    ]
    found = kept_headings({"kids": kids, "number of pages": 8})
    assert found == (OutlineEntry("Summary", 1, 1), OutlineEntry("Profiles of riders", 2, 2))
    # fewer terms than half of the pages are headings of the lowest level
    found = kept_headings({"kids": kids, "number of pages": 14})
    assert [(each.level, each.title) for each in found][2:] == [
        (3, f"term {letter}") for letter in "abcdefg"
    ]
    assert kept_headings({"kids": [], "number of pages": 1}) == ()


def test_numbers_tell_the_levels_and_bring_what_type_did_not_tell():
    typed = (
        OutlineEntry("A study of rivers", 1, 1),
        OutlineEntry("1. Introduction", 2, 1),
        OutlineEntry("1.1. Aims", 3, 1),
        OutlineEntry("Who reads this", 4, 1),
        OutlineEntry("Closing words", 2, 3),
    )
    texts = {
        1: "A study of\nrivers\n1. Introduction\nWho asks?\n1.1. Aims\nWho reads\nthis\nwords",
        2: "2. Methods\nwords\n2.1. The gauge() function\nwords",
        3: "closing words of a line\nClosing words\nwords",
    }
    assert [(each.level, each.title, each.page) for each in with_numbered(typed, texts)] == [
        (1, "A study of rivers", 1),
        (1, "1. Introduction", 1),
        (2, "1.1. Aims", 1),
        (3, "Who reads this", 1),
        (1, "2. Methods", 2),
        (2, "2.1. The gauge() function", 2),
        (1, "Closing words", 3),
    ]
    assert with_numbered((), {1: "no heading"}) == ()
