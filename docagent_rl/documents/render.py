"""Rasters of PDF pages."""

from __future__ import annotations

import ctypes
import io
import math
import shutil
from typing import Any, Protocol

import pypdfium2
import pypdfium2.version
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.colour import Chroma
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.limits import MOST_PIXELS
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, raster_scale
from docagent_rl.documents.settings import RendererKind, RenderSettings

_POPPLER_TIMEOUT_S = 300
_BYTES_A_PIXEL = 4


class Renderer(Protocol):
    """Turns a page of a PDF into pixels."""

    software: str
    """Name and version, for the record."""

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Page `number` (1-based) as an image in mode RGB, or RGBX, whose fourth byte has no meaning.

        It may share memory with this renderer: it is good until the next page is rendered.

        Raises:
            DocumentError: The page cannot be rendered.
        """
        ...


class PdfiumRenderer:
    """Renders with PDFium, in this process."""

    software = f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO} (pdfium {pypdfium2.version.PDFIUM_INFO})"

    def __init__(self, settings: RenderSettings, most_pixels: int = MOST_PIXELS) -> None:
        self._settings = settings
        self._most_pixels = most_pixels
        self._pixels = (ctypes.c_ubyte * 0)()

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """See `Renderer.render`."""
        with pdf.page(number) as page:
            scale = _scale(page, number, self._settings, self._most_pixels)
            try:
                bitmap = page.render(
                    scale=scale, rev_byteorder=True, prefer_bgrx=True, bitmap_maker=self._bitmap
                )
            except pypdfium2.PdfiumError as error:
                raise DocumentError(f"page {number} cannot be rendered ({error})") from error
            # four bytes a pixel are what Pillow works on: no copy
            return bitmap.to_pil()

    def _bitmap(self, width: int, height: int, **options: Any) -> pypdfium2.PdfBitmap:
        # one piece of memory for all pages: the system clears new pages of it, which takes half as long as
        # drawing
        size = width * height * _BYTES_A_PIXEL
        if len(self._pixels) < size:
            self._pixels = (ctypes.c_ubyte * size)()
        return pypdfium2.PdfBitmap.new_native(width, height, buffer=self._pixels, **options)


class Pdf2ImageRenderer:
    """Renders with poppler's `pdftoppm`, at the same scale as `PdfiumRenderer`.

    Raises:
        UserError: poppler is not installed.
    """

    def __init__(self, settings: RenderSettings, most_pixels: int = MOST_PIXELS) -> None:
        missing = [tool for tool in ("pdftoppm", "pdfinfo") if shutil.which(tool) is None]
        if missing:
            raise UserError(
                f"the renderer pdf2image needs poppler, but {' and '.join(missing)} is not on the PATH: "
                "install it (Debian: apt install poppler-utils; conda: conda install -c conda-forge poppler) "
                "or use the renderer pdfium"
            )
        from importlib.metadata import version

        self._settings = settings
        self._most_pixels = most_pixels
        self.software = f"pdf2image {version('pdf2image')} (poppler)"

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """See `Renderer.render`."""
        import pdf2image
        from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError, PDFSyntaxError

        with pdf.page(number) as page:
            scale = _scale(page, number, self._settings, self._most_pixels)
        try:
            images = pdf2image.convert_from_path(
                pdf.path,
                # not `size`, which pdftoppm takes before it turns the page; fractions reach it as they are
                dpi=scale * POINTS_PER_INCH,  # ty: ignore[invalid-argument-type]
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


def make_renderer(settings: RenderSettings, most_pixels: int = MOST_PIXELS) -> Renderer:
    """The renderer that `settings` names; it refuses pages of more than `most_pixels`.

    Raises:
        UserError: What it needs is not installed.
    """
    return _RENDERERS[settings.renderer](settings, most_pixels)


def _scale(page: pypdfium2.PdfPage, number: int, settings: RenderSettings, most_pixels: int) -> float:
    scale = raster_scale(page, settings.dpi, settings.max_side)
    width, height = (math.ceil(side * scale) for side in page.get_size())
    if width * height > most_pixels:
        raise DocumentError(f"page {number} has {width}x{height} pixels, more than {most_pixels}")
    return scale


def encode_jpeg(image: Image.Image, quality: int, chroma: Chroma = Chroma.FULL) -> bytes:
    """`image`, in mode RGB or RGBX, as a JPEG file."""
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality, subsampling=chroma.value)
    return buffer.getvalue()
