"""Pages at the sizes at which they are shown: filters, thumbnails, and the names of cached ones."""

import hashlib
import json
from enum import StrEnum

from PIL import Image

from docagent_rl.documents.settings import Size


class Resample(StrEnum):
    """The filter that is used to resize an image."""

    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    """Sharper at small scales; used for thumbnails."""


_FILTERS = {Resample.BICUBIC: Image.Resampling.BICUBIC, Resample.LANCZOS: Image.Resampling.LANCZOS}


def resized(image: Image.Image, size: Size, resample: Resample) -> Image.Image:
    """Return an image at a size; an image that has it already is returned itself."""
    return image if image.size == size else image.resize(size, _FILTERS[resample])


def shown_key(
    page_hash: str, raster: tuple[int, int, int, int], size: Size, resample: Resample
) -> str:
    """Return the SHA-256 of what decides the pixels of a page's part.

    Args:
        page_hash: SHA-256 of the stored raster.
        raster: the part, `(left, top, right, bottom)` in its pixels.
        size: the size at which it is shown.
        resample: the filter.
    """
    recipe = [page_hash, raster, size, resample.value]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()


def shown_name(page_hash: str, page_size: Size, size: Size, resample: Resample) -> str:
    """Return the name under which a whole page is cached; it begins with the page's hash."""
    return f"{page_hash}.{shown_key(page_hash, (0, 0, *page_size), size, resample)}"


def thumbnail_size(page: Size, cell: int) -> Size:
    """Return the size of a page in a square: scale by `min(cell / w, cell / h)`, round, at least 1
    px.
    """
    scale = min(cell / page[0], cell / page[1])
    return max(1, round(page[0] * scale)), max(1, round(page[1] * scale))
