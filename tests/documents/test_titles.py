"""The titles of documents."""

from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.contents import document_title
from docagent_rl.documents.typography import Line, Style


def printed(*lines):
    """Lines of pages as text and size, a page each."""
    typography = {
        page: [Line(text, Style(size, "F", False, 0.0)) for text, size in each]
        for page, each in enumerate(lines, start=1)
    }
    texts = {page: "\n".join(each.text for each in lines) for page, lines in typography.items()}
    return texts, typography


BODY = [("some words of the text that is read", 10.0)] * 5
FRONT = [("The Rivers", 20.0), ("of the North", 20.0), *BODY]


@pytest.mark.parametrize(
    "stated", ["", "  ", "untitled", "Microsoft Word - a.doc", "thesis.dvi", "Slide 1", "12"]
)
def test_a_placeholder_gives_way_to_the_largest_print_of_the_first_page(stated):
    assert document_title(stated, *printed(FRONT, BODY)) == "The Rivers of the North"


def test_the_stated_title_comes_first():
    assert document_title(" A\n survey ", *printed(FRONT)) == "A survey"


def test_print_that_later_pages_have_is_of_chapters():
    chapter = [("A chapter", 20.0), *BODY]
    assert document_title("", *printed(FRONT, BODY, BODY, chapter)) == ""


@pytest.mark.parametrize("first", ["1 Introduction", "Figure 2. A map", "4711"])
def test_numbered_headings_captions_and_numbers_are_no_titles(first):
    assert document_title("", *printed([(first, 20.0), *BODY])) == ""


def test_text_alone_has_a_title_in_markdown():
    assert document_title("", {1: "", 2: "# Rivers\nwords"}, {}) == "Rivers"
    assert document_title("", {1: "words"}, {}) == ""


def test_the_title_of_a_pdf_is_stored(inbox, store_path, ingested):
    canvas = Canvas(str(inbox / "a.pdf"))
    canvas.setTitle("Flüsse des Nordens")
    canvas.drawString(50, 500, "words")
    canvas.save()
    ingested()
    assert DocumentStore(store_path).document("a").title == "Flüsse des Nordens"
