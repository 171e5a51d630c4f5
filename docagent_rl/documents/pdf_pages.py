"""Pages of a PDF as they are stored: their pictures, their texts and their defects."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cached_property, partial

import pypdfium2
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.annotations import drawn_texts
from docagent_rl.documents.glyphs import blank_letters, sample_letters, without_ink
from docagent_rl.documents.hyphens import Spellings, splits_words
from docagent_rl.documents.letter_shapes import is_wrongly_mapped
from docagent_rl.documents.manifest import Finding
from docagent_rl.documents.page_text import TextLayer, may_hide_text, unmapped_share
from docagent_rl.documents.pdf import OpenPdf, clean_text
from docagent_rl.documents.placing import insert_texts
from docagent_rl.documents.projection import Box, Projection, TextBoxes
from docagent_rl.documents.render import Pdf2ImageRenderer, PdfiumRenderer, make_renderer
from docagent_rl.documents.settings import DocumentError, RendererKind, RenderSettings


class PdfPages:
    """The pages of one PDF, drawn into the same memory one after the other.

    Args:
        pdf: the file.
        settings: how its pages are drawn.
        numbers: the pages that are read, 1-based: their spelling decides which hyphens at line ends
            stay.
        read: OCR for a part of a picture, for stamps without characters; None: they are left out.
    """

    def __init__(
        self,
        pdf: OpenPdf,
        settings: RenderSettings,
        numbers: range,
        read: Callable[[Image.Image], str] | None,
    ) -> None:
        self._pdf = pdf
        self._settings = settings
        self._numbers = numbers
        self._read = read
        self._renderer = make_renderer(settings)

    def read(self, number: int) -> tuple[Image.Image, TextLayer]:
        """Return the picture of page `number` (1-based) and its text layer.

        The picture is valid only until the next page is read.

        Raises:
            DocumentError: The page cannot be drawn or read.
        """
        with self._pdf.page(number) as page:
            picture = self._renderer.render(self._pdf, number)
            with closing(page.get_textpage()) as textpage:
                picture, findings = self._checked(number, page, textpage, picture)
                text = self._text(number, page, textpage, picture)
                if self._pdf.is_xfa_stub(page):
                    findings = (*findings, Finding.XFA_STUB)
                return picture, TextLayer(
                    text, unmapped_share(textpage), partial(may_hide_text, page), findings
                )

    def _checked(
        self,
        number: int,
        page: pypdfium2.PdfPage,
        textpage: pypdfium2.PdfTextPage,
        picture: Image.Image,
    ) -> tuple[Image.Image, tuple[Finding, ...]]:
        """Return the page's picture and its defects.

        The picture is drawn again by the second renderer if the first one left letters out and the
        second one draws more of them.
        """
        letters = sample_letters(textpage)
        boxes = TextBoxes(textpage, Projection(page, picture.size))
        blank = blank_letters(textpage, letters, boxes, picture)
        findings: tuple[Finding, ...] = ()
        if blank and (second := self._redrawn(number)) is not None:
            left = without_ink(blank, second)
            if len(left) < len(blank):
                picture = second
                blank = left
                findings = (Finding.REDRAWN,)
        if blank:
            findings = (Finding.MISSING_GLYPHS, *findings)
        if is_wrongly_mapped(textpage, letters):
            findings = (*findings, Finding.WRONG_MAP)
        return picture, findings

    def _redrawn(self, number: int) -> Image.Image | None:
        if self._second is None:
            return None
        try:
            return self._second.render(self._pdf, number)
        except DocumentError:
            return None  # keep the first picture

    @cached_property
    def _second(self) -> PdfiumRenderer | None:
        """The renderer that uses system fonts for fonts that a file lacks; None without poppler."""
        if self._settings.renderer is RendererKind.PDF2IMAGE:
            return None
        try:
            return Pdf2ImageRenderer(self._settings)
        except UserError:
            return None

    def _text(
        self,
        number: int,
        page: pypdfium2.PdfPage,
        textpage: pypdfium2.PdfTextPage,
        picture: Image.Image,
    ) -> str:
        texts = drawn_texts(self._pdf, number, picture, self._read)
        if texts:
            boxes = TextBoxes(textpage, Projection(page, picture.size))
            text = insert_texts(textpage, boxes, texts, Box(0, 0, *picture.size))
        else:
            text = textpage.get_text_bounded()
        return clean_text(text, self._spellings if splits_words(text) else None).strip()

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._texts())

    def _texts(self) -> Iterator[str]:
        for number in self._numbers:
            with self._pdf.page(number) as page, closing(page.get_textpage()) as textpage:
                yield textpage.get_text_bounded()
