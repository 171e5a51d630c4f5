from __future__ import annotations

import json

import pypdfium2.raw as pdfium_c
import pytest
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.contents import table_of_contents
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

CHAPTERS = ["Rivers", "Mountains", "Sea and land"]
PROSE = "Plain words of the body that go on to the end of the line"


@pytest.fixture
def report(inbox):
    """No bookmarks, no numbers, no table of contents: print alone tells headings."""
    canvas = Canvas(str(inbox / "report.pdf"), pagesize=A5)

    def draw(font, size, top, *lines):
        canvas.setFont(font, size)
        for row, line in enumerate(lines):
            canvas.drawString(40, top - (size + 2) * row, line)

    for chapter in CHAPTERS:
        prose = [f"{PROSE} {chapter} {letter}" for letter in "abcdefghijkl"]
        first, second = f"Ways to see {chapter.lower()} and to know that the title", f"goes on {chapter}"
        draw("Helvetica-Bold", 18, 500, chapter)
        draw("Times-Roman", 10, 470, *prose)
        draw("Helvetica-Bold", 13, 300, first, second)
        draw("Times-Bold", 12, 250, "Note")
        draw("Times-Roman", 10, 230, *(f"{line} too" for line in prose))
        canvas.showPage()
    canvas.save()
    return inbox / "report.pdf"


def test_print_is_stored_and_tells_headings(report, store_path, ingested):
    ingested()
    document = DocumentStore(store_path).document("report")
    lines = document.page(1).lines()
    box = pytest.approx((0.095, 0.131, 0.226, 0.167), abs=0.002)
    assert lines[0] == Line("Rivers", Style(18.0, "Helvetica-Bold", True, 500.0), box)
    assert (lines[1].style.size, lines[1].style.bold) == (10.0, False)
    texts = {number: document.page(number).text() for number in (1, 2, 3)}
    typography = {number: document.page(number).lines() for number in (1, 2, 3)}
    found = table_of_contents((), texts, typography=typography)
    long = "Ways to see {} and to know that the title goes on {}"
    expected = [
        entry
        for page, chapter in enumerate(CHAPTERS, start=1)
        for entry in ((1, chapter, page), (2, long.format(chapter.lower(), chapter), page))
    ]
    assert [(entry.level, entry.title, entry.page) for entry in found] == expected


def test_stores_without_print_are_read_and_get_it_when_ingested_again(report, store_path, ingested):
    ingested()
    page = DocumentStore(store_path).document("report").page(1)
    manifest = StoreLayout(store_path).manifest("report")
    content = json.loads(manifest.read_text())
    del content["checksum"]
    for record in content["pages"]:
        del record["typography"]
    manifest.write_text(json.dumps(content).replace("pdf/3 ", "pdf/1 "))
    old = DocumentStore(store_path).document("report").page(1)
    assert (old.lines(), old.text()) == ((), page.text())
    assert ingested().replaced == ["report"]
    assert DocumentStore(store_path).document("report").page(1).lines() == page.lines()


def test_lines_survive_json():
    lines = (Line("Größe 1", Style(10.5, "Sans", False, 700.2)), Line("図", Style(8.0, "", True, -3.0)))
    assert load_lines(dump_lines(lines)) == lines
    for damaged in ("", "[1]", '[["a"]]', '[["a",null,"b",1,2]]'):
        with pytest.raises(ValueError):
            load_lines(damaged)


def test_text_and_print_are_those_read_one_by_one(report):
    with open_pdf(report) as pdf:
        for number in range(1, pdf.num_pages + 1):
            with pdf.page(number) as page:
                assert page_text_and_typography(page) == (page_text(page), page_typography(page))
                assert page_typography(page)


def test_characters_are_those_of_each_index(inbox):
    """The text in one piece and the codes one by one: where it has a gap or a pair of units, the latter."""
    canvas = Canvas(str(inbox / "a.pdf"), invariant=True)
    canvas.drawString(50, 700, "plain\u00a0text, \u00e4")
    canvas.drawString(50, 650, "next")
    canvas.save()
    with open_pdf(inbox / "a.pdf") as pdf, pdf.page(1) as page:
        textpage = page.get_textpage()
        raw, count = textpage.raw, textpage.count_chars()
        text = _characters(raw, count)
        assert list(map(ord, text)) == [pdfium_c.FPDFText_GetUnicode(raw, index) for index in range(count)]
        assert _characters(raw, 0) == ""
        textpage.close()
    assert text.split() == ["plain", "text,", "\u00e4", "next"]
