"""Length, identity and page sizes of a document; runs in a process of its own, under limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from docagent_rl.documents.chunks import probe
from docagent_rl.documents.images import FORMATS
from docagent_rl.documents.limits import DocumentError, beat
from docagent_rl.documents.pdf import open_pdf
from docagent_rl.documents.sources import SourceDocument, SourceKind

DPI = 200
"""Resolution of the pages that DUDE's boxes were drawn on."""

Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of a document that can be read."""

    num_pages: int
    sha256: str
    """The digest that the manifest of the stored document has."""
    sizes: tuple[Size, ...] = ()
    """Sizes of the pages in pixels at 200 dpi; empty when not asked for. Page images count as rendered so."""


def measure(source: SourceDocument) -> Measured:
    """Count and hash the pages of a document.

    Raises:
        DocumentError: it cannot be read.
    """
    found = probe(source)
    return Measured(found.num_pages, found.sha256)


def measure_sizes(source: SourceDocument) -> Measured:
    """Count, hash and measure the pages of a document.

    Raises:
        DocumentError: it cannot be read.
    """
    found = probe(source)
    images = source.kind is SourceKind.IMAGES
    sizes = map(_image_size, source.files) if images else _pdf_sizes(source.files[0])
    return Measured(found.num_pages, found.sha256, tuple(sizes))


def _pdf_sizes(path: Path) -> list[Size]:
    sizes = []
    with open_pdf(path) as pdf:
        for number in range(1, pdf.num_pages + 1):
            beat(f"page {number}")
            with pdf.page(number) as page:
                width, height = page.get_size()
            if not (width > 0 and height > 0):
                raise DocumentError(f"page {number} has no area")
            sizes.append((width * DPI / 72, height * DPI / 72))
    return sizes


def _image_size(path: Path) -> Size:
    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DocumentError(f"{path.name} is not a readable image ({error})") from error
