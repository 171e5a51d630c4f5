"""Settings and limits of an ingest."""

import math
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.errors import UserError

Size = tuple[int, int]
"""`(width, height)` in pixels."""

MAX_SIDE_RATIO = 200
"""Image processors refuse images whose sides differ by more than this factor."""
# Raised when the stored pages would come out differently for the same settings: documents ingested
# before are then stored anew when they are ingested again, and stay readable until then.
_PDF_PIPELINE = 4
_IMAGE_PIPELINE = 2


class DocumentError(UserError):
    """One document cannot be read; the message is the reason, without the file's name."""


class PassingError(DocumentError):
    """A document could not be read in the time or memory that there was, or by a program that is
    broken.

    Another run may read it, on an idler machine or with other limits.
    """


class DisplayError(ValueError):
    """An image cannot be shown: a side is empty, or the sides differ too much."""


class RendererKind(StrEnum):
    """The programs that can rasterise a PDF page: pypdfium2, or pdf2image over poppler's
    `pdftoppm`.
    """

    PDFIUM = "pdfium"
    PDF2IMAGE = "pdf2image"


class OcrMode(StrEnum):
    """The pages that are read by OCR: `auto` those whose text layer is empty or broken, `always`
    all that show anything.
    """

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Settings of the page rasters; a value out of its range raises a `UserError`."""

    renderer: RendererKind = RendererKind.PDFIUM
    dpi: int = 144
    """Pixels an inch of a PDF page; page images keep their own size."""
    max_side: int = 4096
    """Pixels of the longer side at most; larger pages are scaled down, keeping their aspect
    ratio.
    """
    jpeg_quality: int = 90
    """Quality of the stored JPEG, 1 to 95."""

    def __post_init__(self) -> None:
        _check_ranges(self, dpi=(10, 1200), max_side=(16, 13_000), jpeg_quality=(1, 95))

    def pdf_key(self) -> str:
        """Return everything that decides what a PDF's pages look like: a change renders the
        document anew.
        """
        return (
            f"pdf/{_PDF_PIPELINE} renderer={self.renderer.value} dpi={self.dpi} "
            f"max_side={self.max_side} jpeg_quality={self.jpeg_quality}"
        )

    def image_key(self) -> str:
        """Return the same for documents that are folders of page images."""
        return f"images/{_IMAGE_PIPELINE} max_side={self.max_side} jpeg_quality={self.jpeg_quality}"


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits of reading a page: a document that needs more is reported and left out."""

    seconds: float = 120.0
    """Time for a page, its text and its file."""
    memory_gib: float = 4.0
    """Memory (address space) of a process in GiB, on top of what it takes when it starts."""

    def __post_init__(self) -> None:
        _check_ranges(self, seconds=(0.1, 86_400), memory_gib=(0.1, 65_536))


def _check_ranges(settings: object, **ranges: tuple[float, float]) -> None:
    for field, (low, high) in ranges.items():
        value = getattr(settings, field)
        if not (math.isfinite(value) and low <= value <= high):
            raise UserError(f"{field}={value}: expected a value from {low} to {high}")


def check_size(size: Size) -> None:
    """Refuse sizes that no image processor takes: a side below 1 px, or a side ratio above 200."""
    short, long = sorted(size)
    if short < 1:
        raise DisplayError(f"an image of {size[0]}x{size[1]} pixels has no area")
    if long > MAX_SIDE_RATIO * short:
        raise DisplayError(
            f"the sides of {size[0]}x{size[1]} pixels differ by more than {MAX_SIDE_RATIO} times"
        )
