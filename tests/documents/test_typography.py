from __future__ import annotations

import json

import pypdfium2.raw as pdfium_c
import pytest
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.contents import table_of_contents
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.pdf import open_pdf, page_text
from docagent_rl.documents.typography import (
    Line,
    Style,
    _characters,
    dump_lines,
    load_lines,
    page_text_and_typography,
    page_typography,
)

FAST = RenderSettings(dpi=20)
CHAPTERS = ["Rivers", "Mountains", "Sea and land"]
LETTERS = "abcdefghijkl"
PROSE = "Plain words of the body that go on to the end of the line"


@pytest.fixture
def report(inbox):
    """No bookmarks, no numbers, no table of contents: print alone tells headings."""
    canvas = Canvas(str(inbox / "report.pdf"), pagesize=A5)
    for chapter in CHAPTERS:
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(40, 500, chapter)
        canvas.setFont("Times-Roman", 10)
        for row in range(12):
            canvas.drawString(40, 470 - 12 * row, f"{PROSE} {chapter} {LETTERS[row]}")
        canvas.setFont("Helvetica-Bold", 13)
        canvas.drawString(40, 300, f"Ways to see {chapter.lower()} and to know that the title goes on")
        canvas.drawString(40, 285, f"in a second line of page {chapter}")
        canvas.setFont("Times-Bold", 12)
        canvas.drawString(40, 250, "Note")
        canvas.setFont("Times-Roman", 10)
        for row in range(12):
            canvas.drawString(40, 230 - 12 * row, f"{PROSE} {chapter} {LETTERS[row]} too")
        canvas.showPage()
    canvas.save()
    return inbox


def test_print_is_stored_with_the_pages(report, tmp_path):
    ingest(report, tmp_path / "store", settings=FAST, workers=1)
    lines = DocumentStore(tmp_path / "store").document("report").page(1).lines()
    box = pytest.approx((0.095, 0.131, 0.226, 0.167), abs=0.002)
    assert lines[0] == Line("Rivers", Style(18.0, "Helvetica-Bold", True, 500.0), box)
    assert (lines[1].style.size, lines[1].style.bold) == (10.0, False)


def test_print_tells_headings(report, tmp_path):
    ingest(report, tmp_path / "store", settings=FAST, workers=1)
    document = DocumentStore(tmp_path / "store").document("report")
    pages = range(1, document.num_pages + 1)
    texts = {n: document.page(n).text() for n in pages}
    found = table_of_contents((), texts, typography={n: document.page(n).lines() for n in pages})
    long = "Ways to see {} and to know that the title goes on in a second line of page {}"
    expected = [
        entry
        for page, chapter in enumerate(CHAPTERS, start=1)
        for entry in ((1, chapter, page), (2, long.format(chapter.lower(), chapter), page))
    ]
    assert [(entry.level, entry.title, entry.page) for entry in found] == expected


def test_stores_without_print_still_load(report, tmp_path):
    ingest(report, tmp_path / "store", settings=FAST, workers=1)
    manifest = StoreLayout(tmp_path / "store").manifest("report")
    page = DocumentStore(tmp_path / "store").document("report").page(1)
    content = json.loads(manifest.read_text())
    del content["checksum"]
    for record in content["pages"]:
        del record["typography"]
    manifest.write_text(json.dumps(content))
    old = DocumentStore(tmp_path / "store").document("report").page(1)
    assert old.lines() == ()
    assert old.text() == page.text()


def test_documents_of_before_get_their_print_when_ingested_again(report, tmp_path, edit_record):
    ingest(report, tmp_path / "store", settings=FAST, workers=1)
    manifest = StoreLayout(tmp_path / "store").manifest("report")
    edit_record(manifest, ("pdf/3 ", "pdf/1 "))
    assert ingest(report, tmp_path / "store", settings=FAST, workers=1).replaced == ["report"]


def test_lines_survive_json():
    lines = (Line("Größe 1", Style(10.5, "Sans", False, 700.2)), Line("図", Style(8.0, "", True, -3.0)))
    assert load_lines(dump_lines(lines)) == lines
    for damaged in ("", "[1]", '[["a"]]', '[["a",null,"b",1,2]]'):
        with pytest.raises(ValueError):
            load_lines(damaged)


def test_text_and_print_are_those_read_one_by_one(report):
    with open_pdf(report / "report.pdf") as pdf:
        for number in range(1, pdf.num_pages + 1):
            with pdf.page(number) as page:
                assert page_text_and_typography(page) == (page_text(page), page_typography(page))
                assert page_typography(page)


def test_characters_are_those_of_each_index(inbox):
    """The text in one piece and the codes one by one: where it has a gap or a pair of units, the latter."""
    canvas = Canvas(str(inbox / "a.pdf"), invariant=True)
    canvas.drawString(50, 700, "plain\u00a0text, \u00e4")
    canvas.drawString(50, 650, "next")
    canvas.showPage()
    canvas.save()
    with open_pdf(inbox / "a.pdf") as pdf, pdf.page(1) as page:
        textpage = page.get_textpage()
        raw, count = textpage.raw, textpage.count_chars()
        text = _characters(raw, count)
        assert list(map(ord, text)) == [pdfium_c.FPDFText_GetUnicode(raw, index) for index in range(count)]
        assert _characters(raw, 0) == ""
        textpage.close()
    assert text.split() == ["plain", "text,", "\u00e4", "next"]
