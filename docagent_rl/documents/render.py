"""Rasters of PDF pages, and their JPEG files."""

from __future__ import annotations

import ctypes
import io
import math
import shutil
from collections.abc import Iterator
from typing import Any, cast

import pypdfium2
import pypdfium2.version
from PIL import Image, ImageChops

from docagent_rl.base.errors import UserError
from docagent_rl.documents.limits import MOST_PIXELS, DocumentError
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, raster_scale
from docagent_rl.documents.settings import RendererKind, RenderSettings

_POPPLER_TIMEOUT_S = 300
_BYTES_A_PIXEL = 4
_STEP = 16
"""Every so many pixels both ways one is looked at for its colour."""
_COLOURED = 32
"""Difference of the strongest and the weakest channel, of 255, from which a pixel has colour."""
_MOST_COLOURED = 0.02
_ROWS = 64


class PdfiumRenderer:
    """Renders with PDFium, in this process."""

    # name and version, for the record
    software = f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO} (pdfium {pypdfium2.version.PDFIUM_INFO})"

    def __init__(self, settings: RenderSettings, most_pixels: int = MOST_PIXELS) -> None:
        self._settings = settings
        self._most_pixels = most_pixels
        self._pixels = (ctypes.c_ubyte * 0)()

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Return page `number` (1-based) in mode RGB, or RGBX, whose fourth byte has no meaning.

        It may share memory with this renderer: it is good until the next page is rendered.

        Raises:
            DocumentError: The page cannot be rendered.
        """
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
        """Return a page as `PdfiumRenderer.render`."""
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


def make_renderer(
    settings: RenderSettings, most_pixels: int = MOST_PIXELS
) -> PdfiumRenderer | Pdf2ImageRenderer:
    """Return the renderer that `settings` names; it refuses pages of more than `most_pixels`.

    Raises:
        UserError: What it needs is not installed.
    """
    kind = PdfiumRenderer if settings.renderer is RendererKind.PDFIUM else Pdf2ImageRenderer
    return kind(settings, most_pixels)


def _scale(page: pypdfium2.PdfPage, number: int, settings: RenderSettings, most_pixels: int) -> float:
    scale = raster_scale(page, settings.dpi, settings.max_side)
    width, height = (math.ceil(side * scale) for side in page.get_size())
    if width * height > most_pixels:
        raise DocumentError(f"page {number} has {width}x{height} pixels, more than {most_pixels}")
    return scale


def encode_jpeg(image: Image.Image, quality: int, *, half_colour: bool = False) -> bytes:
    """Return `image`, in mode RGB or RGBX, as a JPEG file.

    Args:
        image: the picture.
        quality: 1 to 95.
        half_colour: keep half of the colours' resolution both ways (4:2:0 in place of 4:4:4).
    """
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality, subsampling=2 if half_colour else 0)
    return buffer.getvalue()


def has_little_colour(image: Image.Image) -> bool:
    """Whether the text of a page in mode RGB or RGBX stays as legible with half of its colours' resolution.

    4:2:0 takes two thirds of the time of 4:4:4 and leaves black text as it is. Coloured text on white is
    read as well; on a ground of another colour it is lost (tesseract, letters of 5 to 8 points at 144
    dpi: from 0.91 to 1.00 of the words down to 0.01 to 0.57). Such a ground takes up pixels: pages with
    colour in more than 2 of 100 keep all of it.
    """
    size = (-(-image.width // _STEP), -(-image.height // _STEP))
    red, green, blue = image.resize(size, Image.Resampling.NEAREST).split()[:3]
    lightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    darkest = ImageChops.darker(ImageChops.darker(red, green), blue)
    spread = ImageChops.subtract(lightest, darkest).histogram()
    return sum(spread[_COLOURED:]) <= _MOST_COLOURED * sum(spread)


def is_white(image: Image.Image) -> bool:
    """Whether every pixel of an image in mode RGB or RGBX is white; looks no further than it has to."""
    return all(low == 255 for part in _bands(image) for low in part)


def _bands(image: Image.Image) -> Iterator[list[int]]:
    """Yield the darkest value of each channel: of a few pixels that stand for all, then row by row."""
    size = (-(-image.width // _STEP), -(-image.height // _STEP))
    yield _darkest(image.resize(size, Image.Resampling.NEAREST))
    for top in range(0, image.height, _ROWS):
        yield _darkest(image.crop((0, top, image.width, min(top + _ROWS, image.height))))


def _darkest(image: Image.Image) -> list[int]:
    return [cast("tuple[int, int]", channel.getextrema())[0] for channel in image.split()[:3]]
