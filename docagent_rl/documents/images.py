"""Page images as sources: what is in a folder, and one page of it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

from PIL import Image, ImageOps

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.render import encode_jpeg
from docagent_rl.documents.settings import RenderSettings

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp"})
SOFTWARE = f"Pillow {Image.__version__}"
_ORIENTATION_TAG = 0x0112


def natural_key(name: str) -> tuple:
    """Sorts `page2` before `page10`."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if i % 2 else part.casefold() for i, part in enumerate(parts)), name


def split_page_name(stem: str) -> tuple[str, int]:
    """Split `<stem>_<page>` at the last underscore; the page is 1-based.

    Raises:
        DocumentError: The name is not of that form.
    """
    name, _, number = stem.rpartition("_")
    if not name or not (number.isascii() and number.isdigit()):
        raise DocumentError(
            "not named <document>_<page>; rename it, or give each document a folder of its own"
        )
    if int(number) < 1:
        raise DocumentError("page numbers start at 1")
    return name, int(number)


def order_pages(numbered: Iterable[tuple[int, Path]]) -> tuple[Path, ...]:
    """The files in page order.

    Raises:
        DocumentError: A page is missing or there twice.
    """
    pages: dict[int, Path] = {}
    for number, path in sorted(numbered):
        if number in pages:
            raise DocumentError(f"page {number} is there twice: {pages[number].name} and {path.name}")
        pages[number] = path
    # walk the files, not the range: one file may carry a huge number
    last = 0
    for number in pages:
        if number != last + 1:
            gap = f"page {last + 1} is" if number == last + 2 else f"pages {last + 1} to {number - 1} are"
            raise DocumentError(f"{gap} missing")
        last = number
    return tuple(pages.values())


def read_page_image(path: Path, settings: RenderSettings) -> tuple[bytes, tuple[int, int]]:
    """A page image as a JPEG file and its (width, height) in pixels.

    A JPEG that needs no change keeps its bytes; anything else is turned upright (EXIF), laid on white,
    scaled down to `max_side` and encoded.

    Raises:
        DocumentError: The file is not an image, is damaged, or holds several.
    """
    data = path.read_bytes()
    try:
        with Image.open(io.BytesIO(data)) as image:
            if getattr(image, "n_frames", 1) > 1:
                raise DocumentError(f"{path.name} holds {image.n_frames} images: write one file a page")
            image.load()
            if _stays(image, settings):
                return data, image.size
            page = _normalise(image, settings.max_side)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DocumentError(f"{path.name} is not a readable image ({_without_address(error)})") from error
    return encode_jpeg(page, settings.jpeg_quality), page.size


def _stays(image: Image.Image, settings: RenderSettings) -> bool:
    plain_jpeg = image.format == "JPEG" and image.mode in ("RGB", "L")
    upright = image.getexif().get(_ORIENTATION_TAG, 1) == 1
    return plain_jpeg and upright and max(image.size) <= settings.max_side


def _normalise(image: Image.Image, max_side: int) -> Image.Image:
    page = ImageOps.exif_transpose(image)
    if page.has_transparency_data:
        page = page.convert("RGBA")
        page = Image.alpha_composite(Image.new("RGBA", page.size, "white"), page)
    page = page.convert("RGB")
    page.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return page


def _without_address(error: Exception) -> str:
    # Pillow names a file in memory by its address, which changes from run to run
    return re.sub(r" file <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
