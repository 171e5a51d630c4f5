from __future__ import annotations

import pypdfium2
import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.pdf import open_pdf, page_text


def test_text_pages_and_outline(inbox, write_pdf):
    outline = [("Intro", 0, 1), ("Größe", 1, 2), ("End", 0, 3)]
    path = write_pdf(inbox / "a.pdf", ["alpha", "beta", ""], outline=outline)
    with open_pdf(path) as pdf:
        assert pdf.num_pages == 3
        assert pdf.outline() == (
            OutlineEntry("Intro", 1, 1),
            OutlineEntry("Größe", 2, 2),
            OutlineEntry("End", 1, 3),
        )
        texts = []
        for number in (1, 2, 3):
            with pdf.page(number) as page:
                texts.append(page_text(page))
    assert texts == ["alpha", "beta", ""]


def test_a_word_split_at_a_line_end_is_joined(inbox):
    canvas = Canvas(str(inbox / "a.pdf"), pagesize=(200, 100))
    lines = canvas.beginText(10, 60)
    for line in ("the evalu-", "ation ends"):
        lines.textLine(line)
    canvas.drawText(lines)
    canvas.save()
    with open_pdf(inbox / "a.pdf") as pdf, pdf.page(1) as page:
        assert "evaluation" in page_text(page).replace("\n", " ")


def test_a_pdf_with_an_owner_password_only_opens(inbox, write_pdf):
    with open_pdf(write_pdf(inbox / "a.pdf", ["x"], user_password="")) as pdf:
        assert pdf.num_pages == 1


def test_bad_files_say_why(inbox, write_pdf):
    whole = write_pdf(inbox / "whole.pdf", [f"page {n}" for n in range(30)]).read_bytes()
    contents = {
        b"": "empty",
        b"hello, this is no PDF": "not a PDF, or damaged or truncated",
        b"%PDF-1.4\nstartxref\n0\n%%EOF": "not a PDF, or damaged or truncated",
        whole[: len(whole) // 2]: "truncated",
        whole[:-40]: "truncated",
    }
    for data, reason in contents.items():
        path = inbox / "bad.pdf"
        path.write_bytes(data)
        with pytest.raises(DocumentError, match=reason), open_pdf(path):
            pass
    encrypted = write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    with pytest.raises(DocumentError, match="encrypted"), open_pdf(encrypted):
        pass


def test_a_pdf_without_pages_says_so(inbox):
    path = inbox / "a.pdf"
    pypdfium2.PdfDocument.new().save(path)
    with pytest.raises(DocumentError, match="no pages"), open_pdf(path):
        pass


def test_rubbish_after_the_end_is_tolerated(inbox, write_pdf):
    path = write_pdf(inbox / "a.pdf", ["x"])
    path.write_bytes(path.read_bytes() + b"\0" * 5000)
    with open_pdf(path) as pdf:
        assert pdf.num_pages == 1
