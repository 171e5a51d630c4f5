"""Rendering of PDF pages and conversion of page images to JPEG files."""

import ctypes
import io
import shutil
import warnings
from pathlib import Path
from typing import Any, cast

import pypdfium2
import pypdfium2.version
from PIL import Image, ImageChops

from docagent_rl.base.errors import UserError
from docagent_rl.documents.native import native_messages
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, raster_scale
from docagent_rl.documents.references import Rotation
from docagent_rl.documents.settings import DocumentError, RendererKind, RenderSettings, Size
from docagent_rl.documents.tiff import eight_bits
from docagent_rl.documents.upright import rotate

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "JPEG2000", "AVIF", "PPM")
"""The formats that are opened, whatever a file's name. Others may start programs (EPS starts
Ghostscript).
"""
IMAGE_SOFTWARE = f"Pillow {Image.__version__}"
"""The reader of image files and its version, for information."""

_POPPLER_TIMEOUT_S = 300
_BYTES_A_PIXEL = 4
_STEP = 16
"""Distance in both directions of the pixels whose colours are looked at."""
_COLOURED = 32
"""Least difference between the strongest and weakest channel (0 to 255) of a coloured pixel."""
_MOST_COLOURED = 0.02
_ORIENTATION_TAG = 0x0112


class PdfiumRenderer:
    """A renderer that uses PDFium in this process."""

    software = (
        f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO} (pdfium {pypdfium2.version.PDFIUM_INFO})"
    )
    """Name and version, for information."""
    _pixels = (ctypes.c_ubyte * 0)()

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Return page `number` (1-based) in mode RGB, or RGBX, whose fourth byte has no meaning.

        The image may share memory with this renderer, and is then valid only until the next page is
        rendered.

        Raises:
            DocumentError: The page cannot be rendered.
        """
        with pdf.drawn(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
            try:
                bitmap = page.render(
                    scale=scale, rev_byteorder=True, prefer_bgrx=True, bitmap_maker=self._bitmap
                )
            except pypdfium2.PdfiumError as error:
                raise DocumentError(f"page {number} cannot be rendered ({error})") from error
            # Pillow works on four bytes per pixel, so nothing is copied
            return bitmap.to_pil()

    def _bitmap(self, width: int, height: int, **options: Any) -> pypdfium2.PdfBitmap:
        # reuse one buffer for all pages: the system clears new memory, which takes half as long as
        # drawing
        size = width * height * _BYTES_A_PIXEL
        if len(self._pixels) < size:
            self._pixels = (ctypes.c_ubyte * size)()
        return pypdfium2.PdfBitmap.new_native(width, height, buffer=self._pixels, **options)


class Pdf2ImageRenderer(PdfiumRenderer):
    """A renderer that uses poppler's `pdftoppm`, as the papers' code does.

    It renders at the same scale as `PdfiumRenderer`.
    """

    def __init__(self, settings: RenderSettings) -> None:
        missing = [tool for tool in ("pdftoppm", "pdfinfo") if shutil.which(tool) is None]
        if missing:
            raise UserError(
                f"the renderer pdf2image needs poppler, but {' and '.join(missing)} is not on the "
                "PATH: install it (Debian: apt install poppler-utils) or use the renderer pdfium"
            )
        from importlib.metadata import version

        super().__init__(settings)
        self.software = f"pdf2image {version('pdf2image')} (poppler)"

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Render a page as `PdfiumRenderer.render` does."""
        import pdf2image
        from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError, PDFSyntaxError

        with pdf.page(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
        try:
            images = pdf2image.convert_from_path(
                pdf.path,
                # not `size`, which pdftoppm applies before it turns the page; fractional values are
                # passed on to it as they are
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


def make_renderer(settings: RenderSettings) -> PdfiumRenderer:
    """Return the renderer that `settings` names."""
    if settings.renderer is RendererKind.PDFIUM:
        return PdfiumRenderer(settings)
    return Pdf2ImageRenderer(settings)


def encode_jpeg(image: Image.Image, quality: int, *, half_colour: bool = False) -> bytes:
    """Return `image`, in mode RGB or RGBX, as a JPEG file.

    `half_colour` halves the resolution of the colours in both directions (4:2:0 instead of 4:4:4).
    """
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality, subsampling=2 if half_colour else 0)
    return buffer.getvalue()


def turned_jpeg(jpeg: bytes, turn: Rotation, quality: int) -> tuple[bytes, Size]:
    """Turn the picture of a JPEG file clockwise; return the new file and its size in pixels."""
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        upright = rotate(image.convert("RGB"), turn)
    return encode_jpeg(upright, quality, half_colour=has_little_colour(upright)), upright.size


def has_little_colour(image: Image.Image) -> bool:
    """Return whether the text of an RGB or RGBX page stays legible at half the colour resolution.

    Encoding with 4:2:0 takes two thirds of the time of 4:4:4 and does not change black text.
    Coloured text on white can still be read; on a coloured background it is lost (tesseract,
    letters of 5 to 8 points at 144 dpi: from 0.91 to 1.00 of the words down to 0.01 to 0.57). Such
    backgrounds are large, so pages with colour in more than 2 % of their pixels keep the full
    resolution.
    """
    red, green, blue = _sparse(image).split()[:3]
    lightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    darkest = ImageChops.darker(ImageChops.darker(red, green), blue)
    spread = ImageChops.subtract(lightest, darkest).histogram()
    return sum(spread[_COLOURED:]) <= _MOST_COLOURED * sum(spread)


def is_white(image: Image.Image) -> bool:
    """Return whether every pixel of an image in mode RGB or RGBX is white."""
    # compare the darkest value of each channel, first in a sample, since most pages are not white
    return all(
        cast("tuple[int, int]", channel.getextrema())[0] == 255
        for part in (_sparse(image), image)
        for channel in part.split()[:3]
    )


def _sparse(image: Image.Image) -> Image.Image:
    size = (-(-image.width // _STEP), -(-image.height // _STEP))
    return image.resize(size, Image.Resampling.NEAREST)


def read_page_image(
    path: Path, settings: RenderSettings, frame: int | None = None
) -> tuple[bytes, Size]:
    """Read a page image, or the image of a TIFF at index `frame`; return a JPEG file and its size.

    A JPEG that needs no change keeps its bytes; any other image is turned upright (EXIF), put on a
    white background, scaled down to `max_side` pixels and encoded.

    Raises:
        DocumentError: The file cannot be read, is not an image in one of `FORMATS`, is damaged, has
            values of unknown range, has several images although `frame` is not given, or has more
            than 178,956,970 pixels.
    """
    with native_messages():
        try:
            return _convert(path, settings) if frame is None else _frame(path, frame, settings)
        except (DocumentError, MemoryError):
            raise
        except Image.DecompressionBombError as error:
            raise DocumentError(
                f"{path.name} has too many pixels ({error}): save it smaller"
            ) from error
        # on damaged files, decoders raise any kind of error, from TypeError to struct.error
        except Exception as error:
            kinds = ", ".join(FORMATS)
            raise DocumentError(
                f"{path.name} is damaged or not an image ({type(error).__name__}); supported "
                f"formats: {kinds}"
            ) from error


def _frame(path: Path, index: int, settings: RenderSettings) -> tuple[bytes, Size]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path, formats=("TIFF",)) as image:
            image.seek(index)
            image.load()
            page = _normalise(image, path.name, settings.max_side)
    return encode_jpeg(page, settings.jpeg_quality), page.size


def _convert(path: Path, settings: RenderSettings) -> tuple[bytes, Size]:
    data = path.read_bytes()
    name = path.name
    with warnings.catch_warnings():
        # warnings about files that might be damaged do not help: a file is read or it is not
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_image(image, data, name)
            image.load()
            plain_jpeg = image.format == "JPEG" and image.mode in ("RGB", "L")
            upright = image.getexif().get(_ORIENTATION_TAG, 1) == 1
            if plain_jpeg and upright and max(image.size) <= settings.max_side:
                return data, image.size
            page = _normalise(image, name, settings.max_side)
    return encode_jpeg(page, settings.jpeg_quality), page.size


def _check_image(image: Image.Image, data: bytes, name: str) -> None:
    if image.format == "PNG":
        # the decoder ignores the checksums of the pixels and would show a damaged image
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()
    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise DocumentError(f"{name} contains {frames} images: save one file per page")


def _normalise(image: Image.Image, name: str, max_side: int) -> Image.Image:
    from PIL import ImageOps  # not needed for PDFs

    page = ImageOps.exif_transpose(eight_bits(image, name))
    if page.has_transparency_data:
        page = page.convert("RGBA")
        page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page)
    page = page.convert("RGB")
    page.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return page
