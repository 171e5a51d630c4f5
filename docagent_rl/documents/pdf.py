"""PDF files: opening, text layer, bookmarks."""

import ctypes
import logging
import os
import re
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.hyphens import Spellings
from docagent_rl.documents.references import OutlineEntry
from docagent_rl.documents.settings import DocumentError

POINTS_PER_INCH = 72
_TAIL_BYTES = 1 << 16
_MAX_OUTLINE_DEPTH = 32

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

_REASONS = {
    pdfium_c.FPDF_ERR_PASSWORD: "encrypted: it asks for a password; decrypt it first",
    pdfium_c.FPDF_ERR_SECURITY: "encrypted by a scheme that is not supported; decrypt it first",
    pdfium_c.FPDF_ERR_FORMAT: "not a PDF, or damaged or truncated",
}


class OpenPdf:
    """A PDF file being read; pages are 1-based.

    PDFium is not thread-safe, so only one thread may use it.
    """

    def __init__(self, path: Path, pdf: pypdfium2.PdfDocument) -> None:
        self.path = path
        self._pdf = pdf
        self._open: tuple[int, pypdfium2.PdfPage] | None = None

    @property
    def num_pages(self) -> int:
        """Number of pages, at least 1."""
        return len(self._pdf)

    @property
    def is_sound(self) -> bool:
        """True if the file's table of objects is valid and was not rebuilt by PDFium."""
        return bool(pdfium_c.FPDF_DocumentHasValidCrossReferenceTable(self._pdf))

    @contextmanager
    def page(self, number: int) -> Generator[pypdfium2.PdfPage]:
        """Open page `number`; nested blocks for the same page share it, so it is parsed once.

        Raises:
            DocumentError: The page cannot be read.
        """
        if self._open is not None and self._open[0] == number:
            yield self._open[1]
            return
        outer = self._open
        try:
            page = self._pdf[number - 1]
        except pypdfium2.PdfiumError as error:
            raise DocumentError(
                f"page {number} cannot be read: the file is damaged or truncated"
            ) from error
        self._open = number, page
        try:
            yield page
        finally:
            self._open = outer
            page.close()

    @contextmanager
    def flattened(self, number: int) -> Generator[pypdfium2.PdfPage]:
        """Open a copy of page `number` whose annotations are made part of its content.

        Raises:
            DocumentError: The annotations are damaged.
        """
        with closing(pypdfium2.PdfDocument.new()) as copy:
            try:
                copy.import_pages(self._pdf, [number - 1])
                with closing(copy[0]) as page:
                    pdfium_c.FPDFPage_Flatten(page, pdfium_c.FLAT_NORMALDISPLAY)
                with closing(copy[0]) as page:  # only a page that is opened again has the change
                    yield page
            except pypdfium2.PdfiumError as error:
                raise DocumentError(
                    f"page {number} cannot be read: its annotations are damaged"
                ) from error

    @contextmanager
    def drawn(self, number: int) -> Generator[pypdfium2.PdfPage]:
        """Open page `number` to be drawn.

        PDFium draws fields only if the file declares a form. Pages that were extracted from a form
        have fields but no form; their fields are made part of the content.
        """
        with self.page(number) as page:
            if self.form is not None or not _has_fields(page):
                yield page
                return
        with self.flattened(number) as page:
            yield page

    @property
    def form(self) -> pypdfium2.PdfFormEnv | None:
        """PDFium's form environment; None for a file without a form."""
        return self._pdf.formenv

    def is_xfa_stub(self, page: pypdfium2.PdfPage) -> bool:
        """Return whether a page ("Please wait…") replaces a form (XFA) that few programs can draw.

        It is then the only page of its file, and has no fields.
        """
        is_dynamic = pdfium_c.FPDF_GetFormType(self._pdf) == pdfium_c.FORMTYPE_XFA_FULL
        return is_dynamic and self.num_pages == 1 and not _has_fields(page)

    def outline(self) -> tuple[OutlineEntry, ...]:
        """Return the bookmarks in reading order."""
        entries = []
        for bookmark in self._pdf.get_toc(max_depth=_MAX_OUTLINE_DEPTH):
            destination = bookmark.get_dest()
            index = destination.get_index() if destination else None
            page = index + 1 if index is not None and index < self.num_pages else None
            # not `PdfBookmark.get_title`, which decodes strictly: one broken title would make the
            # whole document fail
            title = utf16(
                lambda *buffer, item=bookmark: pdfium_c.FPDFBookmark_GetTitle(item, *buffer)
            )
            entries.append(OutlineEntry(clean_text(title).strip(), bookmark.level + 1, page))
        return tuple(entries)

    def has_text(self) -> bool:
        """Return whether any page has a text layer."""
        for number in range(1, self.num_pages + 1):
            with self.page(number) as page, closing(page.get_textpage()) as text:
                if text.count_chars():
                    return True
        return False

    def title(self) -> str:
        """Return the title in the file's metadata, on one line; empty if there is none."""
        text = utf16(lambda *buffer: pdfium_c.FPDF_GetMetaText(self._pdf, b"Title", *buffer))
        return " ".join(clean_text(text).split())


@contextmanager
def open_pdf(path: Path) -> Generator[OpenPdf]:
    """Open a PDF; the file is read as needed, never all at once.

    Raises:
        DocumentError: The file is empty, encrypted, damaged or truncated.
    """
    _check_complete(path)
    try:
        pdf = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise DocumentError(_reason(path)) from error
    with closing(pdf):
        # form fields are drawn only if the form environment exists before the first page is opened;
        # its warnings about XFA forms are covered by a finding of the page (`is_xfa_stub`)
        logging.getLogger("pypdfium2").setLevel(logging.ERROR)
        pdf.init_forms()
        yield OpenPdf(path, pdf)


def annotations(page: pypdfium2.PdfPage) -> Generator[Any]:
    """Yield PDFium's handles of a page's annotations; each is closed before the next is opened."""
    for index in range(pdfium_c.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, index)
        try:
            yield annotation
        finally:
            pdfium_c.FPDFPage_CloseAnnot(annotation)


def _has_fields(page: pypdfium2.PdfPage) -> bool:
    """Return whether a page has form fields with an area."""
    sides = pdfium_c.FS_RECTF()
    for annotation in annotations(page):
        pdfium_c.FPDFAnnot_GetRect(annotation, sides)
        is_field = pdfium_c.FPDFAnnot_GetSubtype(annotation) == pdfium_c.FPDF_ANNOT_WIDGET
        if is_field and sides.right > sides.left and sides.top > sides.bottom:
            return True
    return False


def raster_scale(page: pypdfium2.PdfPage, dpi: int, max_side: int) -> float:
    """Return pixels per point (1/72 inch) for `dpi`, or less to keep the longer side in `max_side`.

    Raises:
        DocumentError: The page has no area.
    """
    width, height = page.get_size()
    if not (width > 0 and height > 0):
        raise DocumentError(f"a page of {width} x {height} points cannot be rendered")
    # PDFium rounds sides up: stay a little below the limit, so that they are rounded to it
    return min(dpi / POINTS_PER_INCH, (max_side - 1e-3) / max(width, height))


def clean_text(text: str, spellings: Spellings | None = None) -> str:
    """Return text as it is stored: words split at a line's end joined, without control characters.

    `spellings` decides which compounds keep their hyphen; by default none do.
    """
    joined = (spellings or Spellings()).joined(text.replace("\r\n", "\n").replace("\r", "\n"))
    # a lone surrogate cannot be written as UTF-8
    return _CONTROL.sub(" ", joined).encode("utf-8", errors="ignore").decode("utf-8")


def utf16(fill: Callable[[ctypes.Array | None, int], int]) -> str:
    """Return a text that PDFium writes to a buffer.

    `fill` takes the buffer, or None, and its size in bytes; it returns the size of the text.
    """
    size = fill(None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    fill(buffer, size)
    return buffer.raw[: max(size - 2, 0)].decode("utf-16-le", errors="replace")


def _reason(path: Path) -> str:
    """Return why PDFium did not open a file.

    The error code in the exception is of no use: for a file without pages, it is left over from an
    earlier file.
    """
    document = pdfium_c.FPDF_LoadDocument(os.fsencode(path) + b"\0", None)
    if document:
        pdfium_c.FPDF_CloseDocument(document)
        return "it has no pages"
    code = pdfium_c.FPDF_GetLastError()
    return _REASONS.get(code, f"PDFium cannot open it (error {code})")


def _check_complete(path: Path) -> None:
    """Refuse truncated files, of which PDFium would silently rebuild the part that is left."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
    if b"startxref" not in tail and b"%%EOF" not in tail:
        raise DocumentError("not a PDF, or damaged or truncated (it has no end-of-file marker)")
