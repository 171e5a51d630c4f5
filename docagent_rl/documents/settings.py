"""Settings and limits of an ingest."""

import math
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.errors import UserError

Size = tuple[int, int]
"""`(width, height)` in pixels."""

MAX_SIDE_RATIO = 200
"""Image processors refuse images whose sides differ by more than this factor."""
# Increased when the same settings lead to different stored pages: documents that were ingested
# before are then stored again when they are ingested again, and stay readable until then.
_PDF_PIPELINE = 4
_IMAGE_PIPELINE = 2


class DocumentError(UserError):
    """A document cannot be read; the message is the reason, without the file's name."""


class RetryableDocumentError(DocumentError):
    """A document could not be read within the limits of time and memory, or a program failed.

    Another run may succeed, on a less busy machine or with other limits.
    """


class DisplayError(ValueError):
    """An image cannot be shown: it has no area, or its sides differ too much."""


class RendererKind(StrEnum):
    """The programs that can rasterise PDF pages: pypdfium2, or pdf2image (poppler's `pdftoppm`)."""

    PDFIUM = "pdfium"
    PDF2IMAGE = "pdf2image"


class OcrMode(StrEnum):
    """Choices of the pages to read by OCR.

    `auto` reads those whose text layer is empty or broken, `always` all that are not blank.
    """

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Settings of the page rasters; a value out of its range raises a `UserError`."""

    renderer: RendererKind = RendererKind.PDFIUM
    dpi: int = 144
    """Resolution of PDF pages in pixels per inch; page images keep their own size."""
    max_side: int = 4096
    """Maximum length of the longer side in pixels; larger pages are scaled down proportionally."""
    jpeg_quality: int = 90
    """Quality of the stored JPEG files, 1 to 95."""

    def __post_init__(self) -> None:
        _check_ranges(self, dpi=(10, 1200), max_side=(16, 13_000), jpeg_quality=(1, 95))

    def pdf_key(self) -> str:
        """Return all settings that decide what a PDF's pages look like.

        If they change, the document is rendered again.
        """
        return (
            f"pdf/{_PDF_PIPELINE} renderer={self.renderer.value} dpi={self.dpi} "
            f"max_side={self.max_side} jpeg_quality={self.jpeg_quality}"
        )

    def image_key(self) -> str:
        """Return all settings that decide what page images look like, as `pdf_key` for PDFs."""
        return f"images/{_IMAGE_PIPELINE} max_side={self.max_side} jpeg_quality={self.jpeg_quality}"


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits for reading a page; a document that needs more is reported and left out."""

    seconds: float = 120.0
    """Seconds for rendering a page, reading its text and writing its file."""
    memory_gib: float = 4.0
    """Memory (address space) of a process in GiB, in addition to what it takes at its start."""

    def __post_init__(self) -> None:
        _check_ranges(self, seconds=(0.1, 86_400), memory_gib=(0.1, 65_536))


def _check_ranges(settings: object, **ranges: tuple[float, float]) -> None:
    for field, (low, high) in ranges.items():
        value = getattr(settings, field)
        if not (math.isfinite(value) and low <= value <= high):
            raise UserError(f"{field}={value}: expected a value from {low} to {high}")


def check_size(size: Size) -> None:
    """Refuse sizes that no image processor accepts: a side below 1 px or a side ratio above 200.

    Raises:
        DisplayError: The size is one of them.
    """
    short, long = sorted(size)
    if short < 1:
        raise DisplayError(f"an image of {size[0]}x{size[1]} pixels has no area")
    if long > MAX_SIDE_RATIO * short:
        raise DisplayError(
            f"the sides of {size[0]}x{size[1]} pixels differ by more than {MAX_SIDE_RATIO} times"
        )
