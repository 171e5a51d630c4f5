"""Rasters of PDF pages."""

from __future__ import annotations

import io
import shutil
from importlib.metadata import version
from typing import Protocol

import pdf2image
import pypdfium2
import pypdfium2.version
from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError, PDFSyntaxError
from PIL import Image

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, raster_scale
from docagent_rl.documents.settings import RendererKind, RenderSettings
from docagent_rl.errors import UserError

_POPPLER_TIMEOUT_S = 300


class Renderer(Protocol):
    """Turns a page of a PDF into pixels."""

    software: str
    """Name and version, for the record."""

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Page `number` (1-based) as an RGB image.

        Raises:
            DocumentError: The page cannot be rendered.
        """
        ...


class PdfiumRenderer:
    """Renders with PDFium, in this process."""

    software = f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO} (pdfium {pypdfium2.version.PDFIUM_INFO})"

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """See `Renderer.render`."""
        with pdf.page(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
            try:
                bitmap = page.render(scale=scale, rev_byteorder=True)
            except pypdfium2.PdfiumError as error:
                raise DocumentError(f"page {number} cannot be rendered ({error})") from error
            try:
                # the image may share the bitmap's memory, which ends with the page
                return bitmap.to_pil().convert("RGB").copy()
            finally:
                bitmap.close()


class Pdf2ImageRenderer:
    """Renders with poppler's `pdftoppm`, at the same scale as `PdfiumRenderer`.

    Raises:
        UserError: poppler is not installed.
    """

    def __init__(self, settings: RenderSettings) -> None:
        missing = [tool for tool in ("pdftoppm", "pdfinfo") if shutil.which(tool) is None]
        if missing:
            raise UserError(
                f"the renderer pdf2image needs poppler, but {' and '.join(missing)} is not on the PATH: "
                "install it (Debian: apt install poppler-utils; conda: conda install -c conda-forge poppler) "
                "or use the renderer pdfium"
            )
        self._settings = settings
        self.software = f"pdf2image {version('pdf2image')} (poppler)"

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """See `Renderer.render`."""
        with pdf.page(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
        try:
            images = pdf2image.convert_from_path(
                pdf.path,
                dpi=scale * POINTS_PER_INCH,  # not `size`, which pdftoppm takes before it turns the page
                first_page=number,
                last_page=number,
                use_cropbox=True,
                timeout=_POPPLER_TIMEOUT_S,
            )
        except (PDFPageCountError, PDFSyntaxError, PDFPopplerTimeoutError, OSError) as error:
            raise DocumentError(f"page {number} cannot be rendered by poppler ({error})") from error
        if len(images) != 1:
            raise DocumentError(f"page {number} cannot be rendered by poppler (it gave no image)")
        return images[0].convert("RGB")


_RENDERERS = {RendererKind.PDFIUM: PdfiumRenderer, RendererKind.PDF2IMAGE: Pdf2ImageRenderer}


def make_renderer(settings: RenderSettings) -> Renderer:
    """The renderer that `settings` names.

    Raises:
        UserError: What it needs is not installed.
    """
    return _RENDERERS[settings.renderer](settings)


def encode_jpeg(image: Image.Image, quality: int) -> bytes:
    """`image` as a JPEG file, without chroma subsampling, which blurs coloured text."""
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()
