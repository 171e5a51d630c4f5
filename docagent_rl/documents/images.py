"""Page images as sources: what is in a folder, and one page of it."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from docagent_rl.documents.limits import MOST_PIXELS, DocumentError, Size, require_memory
from docagent_rl.documents.render import encode_jpeg
from docagent_rl.documents.settings import RenderSettings

# fmt: off
IMAGE_SUFFIXES = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".avif",
    ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".ppm", ".pgm", ".pbm", ".pnm",
})
# fmt: on
OTHER_SUFFIXES = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".jxr", ".tga", ".pcx", ".psd", ".djvu", ".djv"}
)
"""Of pictures that are not read: they may be pages."""
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "JPEG2000", "AVIF", "PPM")
"""Opened, whatever a file is named: others may start programs of their own (EPS: Ghostscript)."""

SOFTWARE = f"Pillow {Image.__version__}"
_ORIENTATION_TAG = 0x0112
_NUMPY_GIB = 0.1
_UNSCALED = frozenset({"I", "F"})
"""Pillow's modes of whole numbers of 32 bits and of fractions."""


def natural_key(name: str) -> tuple:
    """Return a key that sorts `page2` before `page10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if i % 2 else part.casefold() for i, part in enumerate(parts)), name


def document_name(stem: str) -> str:
    """Return the document of a file `<document>_<page>`, split at the last underscore.

    Raises:
        DocumentError: The name is not of that form.
    """
    name, _, number = stem.rpartition("_")
    if not name or not (number.isascii() and number.isdigit()):
        raise DocumentError(
            "not named <document>_<page>; rename it, or give each document a folder of its own"
        )
    return name


def order_pages(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files in page order: the last number in a file's name is that of its page.

    Raises:
        DocumentError: A file has no number or 0, or a page is missing or there twice.
    """
    last, ordered = 0, []
    # walk the files, not the range: one file may carry a huge number
    for number, path in sorted((_page_number(path), path) for path in paths):
        if number == last:
            raise DocumentError(f"page {number} is there twice: {ordered[-1].name} and {path.name}")
        if number != last + 1:
            gap = f"page {last + 1} is" if number == last + 2 else f"pages {last + 1} to {number - 1} are"
            raise DocumentError(
                f"{gap} missing before {path.name}: number the files from 1 without gaps; the last number in "
                "a file's name is that of its page"
            )
        last = number
        ordered.append(path)
    return tuple(ordered)


def _page_number(path: Path) -> int:
    numbers = re.findall("[0-9]+", path.stem)
    if not numbers or int(numbers[-1]) == 0:
        raise DocumentError(f"the name of {path.name} holds no page number: number the files from 1")
    return int(numbers[-1])


def read_page_image(
    path: Path, settings: RenderSettings, most_pixels: int = MOST_PIXELS
) -> tuple[bytes, Size]:
    """Read a page image as a JPEG file and its size in pixels.

    A JPEG that needs no change keeps its bytes; anything else is turned upright (EXIF), laid on white,
    scaled down to `max_side` and encoded.

    Raises:
        DocumentError: The file cannot be read, is not an image of `FORMATS`, is damaged, holds numbers
            without a scale, or holds several images or one of more than `most_pixels`.
    """
    try:
        return _convert(path.read_bytes(), path.name, settings, most_pixels)
    except (DocumentError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise DocumentError(f"{path.name} has more than {MOST_PIXELS} pixels: write it smaller") from error
    # damaged files make decoders raise whatever their code trips over, from TypeError to struct.error
    except Exception as error:
        raise DocumentError(f"{path.name} is not a readable image ({_describe(error)})") from error


def _convert(data: bytes, name: str, settings: RenderSettings, most_pixels: int) -> tuple[bytes, Size]:
    with warnings.catch_warnings():
        # what a file is suspected of is of no use to the reader: it is an error or it is not
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check(image, data, name, most_pixels)
            image.load()
            plain_jpeg = image.format == "JPEG" and image.mode in ("RGB", "L")
            upright = image.getexif().get(_ORIENTATION_TAG, 1) == 1
            if plain_jpeg and upright and max(image.size) <= settings.max_side:
                return data, image.size
            page = _normalise(image, settings.max_side)
    return encode_jpeg(page, settings.jpeg_quality), page.size


def _check(image: Image.Image, data: bytes, name: str, most_pixels: int) -> None:
    if image.format == "PNG":
        # the decoder passes over the checksums of the pixels and shows what is left of them
        with Image.open(io.BytesIO(data), formats=("PNG",)) as again:
            again.verify()
    if (frames := getattr(image, "n_frames", 1)) > 1:
        raise DocumentError(f"{name} holds {frames} images: write one file a page")
    if image.width * image.height > most_pixels:
        raise DocumentError(f"{name} has {image.width}x{image.height} pixels, more than {most_pixels}")
    if image.mode in _UNSCALED and (image.mode, image.format) != ("I", "PPM"):
        raise DocumentError(
            f"{name} holds numbers without a scale (mode {image.mode}): which of them is white is "
            "not known; write 8 or 16 bits a pixel"
        )


def _normalise(image: Image.Image, max_side: int) -> Image.Image:
    from PIL import ImageOps  # of no use to those who read PDFs

    page = ImageOps.exif_transpose(image)
    if page.mode.startswith("I"):
        page = _eight_bits(page)
    if page.has_transparency_data:
        page = page.convert("RGBA")
        page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page)
    page = page.convert("RGB")
    page.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return page


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return a grey picture of 16 bits a pixel in mode L, on white; Pillow makes all above 255 white."""
    require_memory(_NUMPY_GIB)
    import numpy as np

    values = np.asarray(image)
    grey = (values >> 8).astype(np.uint8)
    if isinstance(clear := image.info.get("transparency"), int):
        grey[values == clear] = 255
    return Image.fromarray(grey)


def _describe(error: Exception) -> str:
    # Pillow names a file in memory by its address, which changes from run to run
    text = re.sub(r" file <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
    if isinstance(error, UnidentifiedImageError):
        return f"{text}; {', '.join(FORMATS)} are read"
    return text if text and isinstance(error, OSError) else f"{type(error).__name__}: {text}".rstrip(": ")
