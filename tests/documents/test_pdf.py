import shutil

import numpy as np
import pypdfium2
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import lone_surrogate
from docagent_rl.documents import OutlineEntry, RenderSettings
from docagent_rl.documents.page_text import layer_text
from docagent_rl.documents.pdf import open_pdf
from docagent_rl.documents.render import Pdf2ImageRenderer, PdfiumRenderer
from docagent_rl.documents.settings import DocumentError
from tests.documents.conftest import write_pdf_objects


def page_text(page):
    return layer_text(page.get_textpage())


PDF_FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica%s>>"


def test_text_pages_and_outline(inbox, write_pdf):
    outline = [("Intro", 0, 1), ("Größe", 1, 2), ("End", 0, 3)]
    path = write_pdf(inbox / "a.pdf", ["alpha", "beta", ""], outline=outline)
    with open_pdf(path) as pdf:
        assert pdf.num_pages == 3
        assert pdf.outline() == tuple(
            OutlineEntry(title, level + 1, page) for title, level, page in outline
        )
        for number, text in enumerate(("alpha", "beta", ""), start=1):
            with pdf.page(number) as page:
                assert page_text(page) == text
    # a word that is split at the end of a line is joined
    content = "BT /F 12 Tf 14 TL 10 60 Td (the evalu-) Tj T* (ation ends) Tj ET"
    path = write_pdf_objects(inbox / "b.pdf", content, "/Font<</F 5 0 R>>", PDF_FONT % "")
    with open_pdf(path) as pdf, pdf.page(1) as page:
        assert "evaluation" in page_text(page).replace("\n", " ")


def test_half_a_character_in_a_font_or_a_bookmark_is_not_stored(inbox):
    """The font maps `b` to U+D83D, and the bookmark contains it, too."""
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def 1 "
        "begincodespacerange "
        "<00> <FF> endcodespacerange 3 beginbfchar <61> <0061> <62> <D83D> <63> <0063> endbfchar "
        "endcmap end end"
    )
    objects = [
        PDF_FONT % "/ToUnicode 6 0 R",
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
            text = page_text(page)
    for found in (text, entry.title):
        assert (found[0], found[-1]) == ("a", "c")
        assert lone_surrogate(found) is None


def test_bad_files_say_why(inbox, write_pdf):
    whole = write_pdf(inbox / "whole.pdf", [f"page {n}" for n in range(9)]).read_bytes()
    pypdfium2.PdfDocument.new().save(inbox / "none.pdf")
    write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    for data, said in (
        (b"", "not a PDF"),
        (b"hello, this is no PDF", "not a PDF"),
        (b"%PDF-1.4\nstartxref\n0\n%%EOF", "not a PDF"),
        (whole[: len(whole) // 2], "truncated"),
        (whole[:-40], "truncated"),
        ((inbox / "none.pdf").read_bytes(), "pages"),
        ((inbox / "locked.pdf").read_bytes(), "encrypted"),
    ):
        (inbox / "a.pdf").write_bytes(data)
        with pytest.raises(DocumentError, match=said), open_pdf(inbox / "a.pdf"):
            pass

    # an owner's password and rubbish after the end are tolerated
    path = write_pdf(inbox / "a.pdf", ["x"], user_password="")
    path.write_bytes(path.read_bytes() + b"\0" * 5000)
    with open_pdf(path) as pdf:
        assert pdf.num_pages == 1


def test_pdfium_draws_the_page(inbox, write_pdf):
    """The text starts at x=10 with its base line in the middle of the page."""
    with open_pdf(write_pdf(inbox / "a.pdf", ["left", ""])) as pdf:
        renderer = PdfiumRenderer(RenderSettings(dpi=72))
        drawn, blank = (
            np.asarray(renderer.render(pdf, number).convert("RGB")) for number in (1, 2)
        )
        with pytest.raises(DocumentError, match="page 3"):
            renderer.render(pdf, 3)
    assert drawn.shape == blank.shape == (100, 200, 3)
    assert blank.min() == 255
    assert drawn[30:55, 8:60].min() < 100
    assert drawn[:, 100:].min() == 255


def test_raster_sizes(inbox, write_pdf):
    """Sides are points * dpi / 72, rounded up, and the longer one is at most the limit."""
    for points, dpi, limit, expected in (
        ((612, 792), 144, 4096, (1224, 1584)),
        ((100.2, 50), 72, 4096, (101, 50)),
        ((7200, 3600), 144, 1000, (1000, 500)),
        ((3000, 1), 72, 100, (100, 1)),
    ):
        with open_pdf(write_pdf(inbox / "a.pdf", ["x"], size=points)) as pdf:
            assert (
                PdfiumRenderer(RenderSettings(dpi=dpi, max_side=limit)).render(pdf, 1).size
                == expected
            )


@pytest.mark.skipif(
    not (shutil.which("pdftoppm") and shutil.which("pdfinfo")), reason="poppler is not there"
)
@pytest.mark.parametrize("rotation", [0, 90])
def test_both_renderers_agree(inbox, write_pdf, rotation):
    path = write_pdf(
        inbox / "a.pdf", ["skipped", "the same page"], size=(200.4, 100.2), rotation=rotation
    )
    settings = RenderSettings(dpi=100, max_side=250)
    with open_pdf(path) as pdf:
        pictures = [
            np.asarray(renderer(settings).render(pdf, 2).convert("RGB")).astype(float)
            for renderer in (PdfiumRenderer, Pdf2ImageRenderer)
        ]
    assert np.abs(np.subtract(pictures[0].shape, pictures[1].shape)).max() <= 1
    assert max(pictures[0].shape) == 250
    assert max(pictures[1].shape) <= 250
    ink = [np.argwhere(picture.mean(axis=2) < 128).mean(axis=0) for picture in pictures]
    assert np.abs(ink[0] - ink[1]).max() < 2


def test_pages_of_other_sizes_share_a_renderer(inbox, write_pdf):
    """The renderer draws into the memory of the page before."""
    large, small = (
        write_pdf(inbox / f"{side}.pdf", ["text", ""], size=(side, side)) for side in (200, 100)
    )
    settings = RenderSettings(dpi=72)
    shared = PdfiumRenderer(settings)
    for path, number in ((large, 1), (small, 1), (small, 2), (large, 2), (large, 1)):
        with open_pdf(path) as pdf:
            alone = PdfiumRenderer(settings).render(pdf, number).convert("RGB")
            assert shared.render(pdf, number).convert("RGB").tobytes() == alone.tobytes()
            with pdf.page(number) as page:
                assert (
                    alone.tobytes() == page.render(scale=1, rev_byteorder=True).to_pil().tobytes()
                )


def test_every_setting_of_a_pdf_is_in_its_key_and_page_images_do_not_depend_on_dpi():
    for name, value in (("dpi", 5000), ("max_side", 1), ("jpeg_quality", 0)):
        with pytest.raises(UserError, match=f"{name}="):
            RenderSettings(**{name: value})
    changes = ({}, {"dpi": 72}, {"max_side": 1000}, {"jpeg_quality": 50})
    assert len({RenderSettings(**change).pdf_key() for change in changes}) == 4
    plain = RenderSettings().image_key()
    assert plain == RenderSettings(dpi=72).image_key()
    assert plain != RenderSettings(max_side=1000).image_key()
