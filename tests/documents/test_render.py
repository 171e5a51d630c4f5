from __future__ import annotations

import shutil

import numpy as np
import pytest

from docagent_rl.documents import RendererKind, RenderSettings
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.pdf import open_pdf
from docagent_rl.documents.render import Pdf2ImageRenderer, PdfiumRenderer, make_renderer
from docagent_rl.errors import UserError

POPPLER = RendererKind.PDF2IMAGE


def test_pdfium_draws_the_page(inbox, write_pdf):
    with open_pdf(write_pdf(inbox / "a.pdf", ["left", ""])) as pdf:
        renderer = PdfiumRenderer(RenderSettings(dpi=72))
        drawn, blank = (np.asarray(renderer.render(pdf, number).convert("RGB")) for number in (1, 2))
        with pytest.raises(DocumentError, match="page 3"):
            renderer.render(pdf, 3)
    assert drawn.shape == blank.shape == (100, 200, 3)
    assert blank.min() == 255
    # the text starts at x=10 with its base line in the middle of the page
    assert drawn[30:55, 8:60].min() < 100
    assert drawn[:, 100:].min() == 255


@pytest.mark.parametrize(
    ("points", "dpi", "limit", "expected"),
    [
        ((612, 792), 144, 4096, (1224, 1584)),
        ((612, 792), 72, 4096, (612, 792)),
        ((100.2, 50), 72, 4096, (101, 50)),
        ((7200, 3600), 144, 1000, (1000, 500)),
        ((3000, 1), 72, 100, (100, 1)),
    ],
)
def test_raster_sizes(inbox, write_pdf, points, dpi, limit, expected):
    """Sides are points * dpi / 72, rounded up; the longer one is at most the limit."""
    with open_pdf(write_pdf(inbox / "a.pdf", ["x"], size=points)) as pdf:
        assert PdfiumRenderer(RenderSettings(dpi=dpi, max_side=limit)).render(pdf, 1).size == expected


def test_without_poppler_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="poppler-utils"):
        make_renderer(RenderSettings(renderer=POPPLER))


@pytest.mark.skipif(not (shutil.which("pdftoppm") and shutil.which("pdfinfo")), reason="poppler is not there")
@pytest.mark.parametrize("rotation", [0, 90])
def test_both_renderers_agree(inbox, write_pdf, rotation):
    path = write_pdf(inbox / "a.pdf", ["skipped", "the same page"], size=(200.4, 100.2), rotation=rotation)
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
    """It draws into the memory of the page before."""
    large, small = (write_pdf(inbox / f"{side}.pdf", ["text", ""], size=(side, side)) for side in (200, 100))
    settings = RenderSettings(dpi=72)
    shared = PdfiumRenderer(settings)
    for path, number in ((large, 1), (small, 1), (small, 2), (large, 2), (large, 1)):
        with open_pdf(path) as pdf:
            alone = PdfiumRenderer(settings).render(pdf, number).convert("RGB")
            assert shared.render(pdf, number).convert("RGB").tobytes() == alone.tobytes()
            with pdf.page(number) as page:
                assert alone.tobytes() == page.render(scale=1, rev_byteorder=True).to_pil().tobytes()


def test_every_setting_of_a_pdf_is_in_its_key_and_page_images_do_not_depend_on_the_renderer():
    changes = ({}, {"renderer": POPPLER}, {"dpi": 72}, {"max_side": 1000}, {"jpeg_quality": 50})
    assert len({RenderSettings(**change).pdf_key() for change in changes}) == 5
    plain = RenderSettings().image_key()
    assert plain == RenderSettings(renderer=POPPLER, dpi=72).image_key()
    assert plain != RenderSettings(max_side=1000).image_key()
