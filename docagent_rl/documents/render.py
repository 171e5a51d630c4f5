"""Rasters of pages, of PDFs or of image files, and their JPEG files."""

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
from docagent_rl.documents.upright import turned

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "JPEG2000", "AVIF", "PPM")
"""Opened, whatever a file is named: others may start programs of their own (EPS: Ghostscript)."""
IMAGE_SOFTWARE = f"Pillow {Image.__version__}"
"""Reader of image files, with its version, for the record."""

_POPPLER_TIMEOUT_S = 300
_BYTES_A_PIXEL = 4
_STEP = 16
"""Every so many pixels both ways one is looked at for its colour."""
_COLOURED = 32
"""Difference of the strongest and the weakest channel, of 255, from which a pixel has colour."""
_MOST_COLOURED = 0.02
_ORIENTATION_TAG = 0x0112


class PdfiumRenderer:
    """A renderer by PDFium, in this process."""

    software = (
        f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO} (pdfium {pypdfium2.version.PDFIUM_INFO})"
    )
    """Name and version, for the record."""
    _pixels = (ctypes.c_ubyte * 0)()

    def __init__(self, settings: RenderSettings) -> None:
        self._settings = settings

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Return page `number` (1-based) in mode RGB, or RGBX, whose fourth byte has no meaning.

        It may share memory with this renderer: it is good until the next page is rendered.
        """
        with pdf.drawn(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
            try:
                bitmap = page.render(
                    scale=scale, rev_byteorder=True, prefer_bgrx=True, bitmap_maker=self._bitmap
                )
            except pypdfium2.PdfiumError as error:
                raise DocumentError(f"page {number} cannot be rendered ({error})") from error
            # four bytes a pixel are what Pillow works on: no copy
            return bitmap.to_pil()

    def _bitmap(self, width: int, height: int, **options: Any) -> pypdfium2.PdfBitmap:
        # one piece of memory for all pages: the system clears new pages of it, which takes half as
        # long as drawing
        size = width * height * _BYTES_A_PIXEL
        if len(self._pixels) < size:
            self._pixels = (ctypes.c_ubyte * size)()
        return pypdfium2.PdfBitmap.new_native(width, height, buffer=self._pixels, **options)


class Pdf2ImageRenderer(PdfiumRenderer):
    """A renderer by poppler's `pdftoppm`, as the papers' code has it, at the scale of
    `PdfiumRenderer`.
    """

    def __init__(self, settings: RenderSettings) -> None:
        missing = [tool for tool in ("pdftoppm", "pdfinfo") if shutil.which(tool) is None]
        if missing:
            raise UserError(
                f"the renderer pdf2image needs poppler, but {' and '.join(missing)} is not on the "
                "PATH: "
                "install it (Debian: apt install poppler-utils) or use the renderer pdfium"
            )
        from importlib.metadata import version

        super().__init__(settings)
        self.software = f"pdf2image {version('pdf2image')} (poppler)"

    def render(self, pdf: OpenPdf, number: int) -> Image.Image:
        """Return a page as `PdfiumRenderer.render`."""
        import pdf2image
        from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError, PDFSyntaxError

        with pdf.page(number) as page:
            scale = raster_scale(page, self._settings.dpi, self._settings.max_side)
        try:
            images = pdf2image.convert_from_path(
                pdf.path,
                # not `size`, which pdftoppm takes before it turns the page; fractions reach it as
                # they are
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
    return (PdfiumRenderer if settings.renderer is RendererKind.PDFIUM else Pdf2ImageRenderer)(
        settings
    )


def encode_jpeg(image: Image.Image, quality: int, *, half_colour: bool = False) -> bytes:
    """Return `image`, in mode RGB or RGBX, as a JPEG file.

    `half_colour` keeps half of the colours' resolution both ways (4:2:0 in place of 4:4:4).
    """
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality, subsampling=2 if half_colour else 0)
    return buffer.getvalue()


def turned_jpeg(jpeg: bytes, turn: Rotation, quality: int) -> tuple[bytes, Size]:
    """Return the picture of a JPEG file turned clockwise, as another one, and its size in
    pixels.
    """
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        upright = turned(image.convert("RGB"), turn)
    return encode_jpeg(upright, quality, half_colour=has_little_colour(upright)), upright.size


def has_little_colour(image: Image.Image) -> bool:
    """Return whether the text of an RGB or RGBX page stays legible with half of its colours'
    resolution.

    4:2:0 takes two thirds of the time of 4:4:4 and leaves black text as it is. Coloured text on
    white is read as well; on a ground of another colour it is lost (tesseract, letters of 5 to 8
    points at 144 dpi: from 0.91 to 1.00 of the words down to 0.01 to 0.57). Such a ground takes up
    pixels: pages with colour in more than 2 of 100 keep all of it.
    """
    red, green, blue = _sparse(image).split()[:3]
    lightest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    darkest = ImageChops.darker(ImageChops.darker(red, green), blue)
    spread = ImageChops.subtract(lightest, darkest).histogram()
    return sum(spread[_COLOURED:]) <= _MOST_COLOURED * sum(spread)


def is_white(image: Image.Image) -> bool:
    """Return whether every pixel of an image in mode RGB or RGBX is white, looking no further than
    needed.
    """
    # the darkest value of each channel: of a few pixels that stand for all, then of all
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
    """Read a page image, or one of the images of a TIFF, by its index, as a JPEG file and its size
    in pixels.

    A JPEG that needs no change keeps its bytes; anything else is turned upright (EXIF), laid on
    white, scaled down to `max_side` and encoded.

    Raises:
        DocumentError: The file cannot be read, is not an image of `FORMATS`, is damaged, holds
            numbers without a scale, several images where `frame` names none, or one of more than
            178,956,970 pixels.
    """
    with native_messages():
        try:
            return _convert(path, settings) if frame is None else _frame(path, frame, settings)
        except (DocumentError, MemoryError):
            raise
        except Image.DecompressionBombError as error:
            raise DocumentError(
                f"{path.name} has too many pixels ({error}): write it smaller"
            ) from error
        # damaged files make decoders raise whatever their code trips over, from TypeError to
        # struct.error
        except Exception as error:
            kinds = ", ".join(FORMATS)
            raise DocumentError(
                f"{path.name} is damaged or no image ({type(error).__name__}); {kinds} are read"
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
        # what a file is suspected of is of no use to the reader: it is an error or it is not
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
        # the decoder passes over the checksums of the pixels and shows what is left of them
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()
    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise DocumentError(f"{name} holds {frames} images: write one file a page")


def _normalise(image: Image.Image, name: str, max_side: int) -> Image.Image:
    from PIL import ImageOps  # of no use to those who read PDFs

    page = ImageOps.exif_transpose(eight_bits(image, name))
    if page.has_transparency_data:
        page = page.convert("RGBA")
        page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page)
    page = page.convert("RGB")
    page.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return page
