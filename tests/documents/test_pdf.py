from __future__ import annotations

from pathlib import Path

import pypdfium2
import pytest

from docagent_rl.documents import kept_pdf as module
from docagent_rl.documents.chunks import PAGES_PER_CHUNK
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.kept_pdf import kept_pdf
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.pdf import open_pdf, page_text
from docagent_rl.documents.typography import page_typography
from docagent_rl.surrogates import lone_surrogate
from tests.documents.bad_pages import write_pdf_objects

FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica%s>>"


def test_text_pages_and_outline(inbox, write_pdf):
    outline = [("Intro", 0, 1), ("Größe", 1, 2), ("End", 0, 3)]
    path = write_pdf(inbox / "a.pdf", ["alpha", "beta", ""], outline=outline)
    with open_pdf(path) as pdf:
        assert pdf.num_pages == 3
        assert pdf.outline() == tuple(OutlineEntry(title, level + 1, page) for title, level, page in outline)
        texts = []
        for number in (1, 2, 3):
            with pdf.page(number) as page:
                texts.append(page_text(page))
    assert texts == ["alpha", "beta", ""]


def test_a_word_split_at_a_line_end_is_joined(inbox):
    content = "BT /F 12 Tf 14 TL 10 60 Td (the evalu-) Tj T* (ation ends) Tj ET"
    path = write_pdf_objects(inbox / "a.pdf", content, "/Font<</F 5 0 R>>", FONT % "")
    with open_pdf(path) as pdf, pdf.page(1) as page:
        assert "evaluation" in page_text(page).replace("\n", " ")


def test_half_a_character_in_a_font_or_a_bookmark_is_not_stored(inbox):
    """The font says that `b` is U+D83D, and the bookmark holds it too."""
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 begincodespacerange "
        "<00> <FF> endcodespacerange 3 beginbfchar <61> <0061> <62> <D83D> <63> <0063> endbfchar "
        "endcmap end end"
    )
    objects = [
        FONT % "/ToUnicode 6 0 R",
        f"<</Length {len(cmap)}>>stream\n{cmap}\nendstream",
        "<</Type/Outlines/First 8 0 R/Last 8 0 R/Count 1>>",
        "<</Title<FEFF0061D83D0063>/Parent 7 0 R/Dest[3 0 R/Fit]>>",
    ]
    path = write_pdf_objects(
        inbox / "a.pdf", "BT /F 12 Tf 10 50 Td (abc) Tj ET", "/Font<</F 5 0 R>>", *objects
    )
    path.write_bytes(path.read_bytes().replace(b"/Pages 2 0 R>>", b"/Pages 2 0 R/Outlines 7 0 R>>"))
    with open_pdf(path) as pdf:
        (entry,) = pdf.outline()
        with pdf.page(1) as page:
            text, (line,) = page_text(page), page_typography(page)
    for found in (text, line.text, entry.title):
        assert (found[0], found[-1]) == ("a", "c")
        assert lone_surrogate(found) is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda whole: b"", "empty"),
        (lambda whole: b"hello, this is no PDF", "not a PDF"),
        (lambda whole: b"%PDF-1.4\nstartxref\n0\n%%EOF", "not a PDF"),
        (lambda whole: whole[: len(whole) // 2], "truncated"),
        (lambda whole: whole[:-40], "truncated"),
    ],
)
def test_bad_files_say_why(inbox, write_pdf, make, said):
    whole = write_pdf(inbox / "a.pdf", [f"page {n}" for n in range(30)]).read_bytes()
    (inbox / "a.pdf").write_bytes(make(whole))
    with pytest.raises(DocumentError, match=said), open_pdf(inbox / "a.pdf"):
        pass


def test_encrypted_files_and_those_without_pages_say_so(inbox, write_pdf):
    pypdfium2.PdfDocument.new().save(inbox / "none.pdf")
    write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    for name, said in (("none", "no pages"), ("locked", "encrypted")):
        with pytest.raises(DocumentError, match=said), open_pdf(inbox / f"{name}.pdf"):
            pass
    # an owner's password alone hides nothing, and rubbish after the end is tolerated
    path = write_pdf(inbox / "a.pdf", ["x"], user_password="")
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


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Names of the files that PDFium opened, in that order."""
    module._kept.close()
    names: list[str] = []
    whole = pypdfium2.PdfDocument.__init__

    def noted(self, source, *others, **options):
        names.append(Path(source).name)
        whole(self, source, *others, **options)

    monkeypatch.setattr(pypdfium2.PdfDocument, "__init__", noted)
    yield names
    module._kept.close()


def _stamp(path):
    return ((path.stat().st_size, path.stat().st_mtime_ns),)


def test_ranges_of_a_document_open_it_once(inbox, write_pdf, ingested, opened):
    """And the look at it before."""
    write_pdf(inbox / "long.pdf", [f"page {number}" for number in range(3 * PAGES_PER_CHUNK)])
    assert ingested().pages == 3 * PAGES_PER_CHUNK
    assert opened == ["long.pdf"] * 2


def test_another_file_another_version_and_every_ninth_block_open_anew(inbox, write_pdf, opened):
    one, other = (write_pdf(inbox / name, ["a"]) for name in ("one.pdf", "other.pdf"))
    for path in (one, one, other, one):
        with kept_pdf(path, _stamp(path)) as pdf:
            assert pdf.path == path
    assert opened == ["one.pdf", "other.pdf", "one.pdf"]
    write_pdf(one, ["a", "b"])
    for _ in range(9):
        with kept_pdf(one, _stamp(one)) as pdf:
            assert pdf.num_pages == 2
    assert opened[3:] == ["one.pdf", "one.pdf"]


def test_a_block_that_fails_closes_the_file(inbox, write_pdf, opened):
    path = write_pdf(inbox / "one.pdf", ["a"])
    with pytest.raises(DocumentError, match="no good"), kept_pdf(path, _stamp(path)):
        raise DocumentError("no good")
    with kept_pdf(path, _stamp(path)) as pdf:
        assert pdf.num_pages == 1
    assert opened == ["one.pdf", "one.pdf"]
