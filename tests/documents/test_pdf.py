from __future__ import annotations

import pypdfium2
import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.pdf import open_pdf, page_text
from docagent_rl.documents.typography import page_typography
from docagent_rl.surrogates import lone_surrogate


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


def _write_half_character(path):
    """A PDF whose font says that `b` is U+D83D, and whose bookmark holds it too."""
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange "
        b"<00> <FF> endcodespacerange 3 beginbfchar <61> <0061> <62> <D83D> <63> <0063> endbfchar "
        b"endcmap end end"
    )
    text = b"BT /F 12 Tf 10 50 Td (abc) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/Outlines 7 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(cmap), cmap),
        b"<</Type/Outlines/First 8 0 R/Last 8 0 R/Count 1>>",
        b"<</Title<FEFF0061D83D0063>/Parent 7 0 R/Dest[3 0 R/Fit]>>",
    ]
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, each) for n, each in enumerate(objects, start=1))
    path.write_bytes(b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R/Size 9>>\nstartxref\n0\n%%EOF\n")
    return path


def test_half_a_character_in_a_font_or_a_bookmark_is_not_stored(inbox):
    with open_pdf(_write_half_character(inbox / "a.pdf")) as pdf:
        (entry,) = pdf.outline()
        with pdf.page(1) as page:
            text, (line,) = page_text(page), page_typography(page)
    for found in (text, line.text, entry.title):
        assert (found[0], found[-1]) == ("a", "c")
        assert lone_surrogate(found) is None


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


def test_a_page_is_parsed_once_by_blocks_inside_one_another(inbox, write_pdf):
    with open_pdf(write_pdf(inbox / "a.pdf", ["one", "two"])) as pdf:
        with pdf.page(1) as outer:
            with pdf.page(1) as inner:
                assert inner is outer
            with pdf.page(2) as other:
                assert page_text(other) == "two"
            assert page_text(outer) == "one"
        with pdf.page(1) as later:
            assert later is not outer
            assert page_text(later) == "one"
