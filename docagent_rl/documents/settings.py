"""How pages are turned into rasters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.errors import UserError

# Raised when the stored pages would come out differently for the same settings: documents ingested before
# are then stored anew when they are ingested again, and stay readable until then.
_PDF_PIPELINE = 3
_IMAGE_PIPELINE = 1


class RendererKind(StrEnum):
    """The programs that can rasterise a PDF page."""

    PDFIUM = "pdfium"
    """pypdfium2: in process, no further installation."""
    PDF2IMAGE = "pdf2image"
    """pdf2image over poppler's `pdftoppm`, which must be installed."""


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Settings of the page rasters.

    Raises:
        UserError: A value is out of its range.
    """

    renderer: RendererKind = RendererKind.PDFIUM
    dpi: int = 144
    """Pixels an inch of a PDF page; page images keep their own size."""
    max_side: int = 4096
    """Pixels of the longer side at most; larger pages are scaled down, keeping their aspect ratio."""
    jpeg_quality: int = 90
    """Quality of the stored JPEG, 1 to 95."""

    def __post_init__(self) -> None:
        for field, low, high in (("dpi", 10, 1200), ("max_side", 16, 65500), ("jpeg_quality", 1, 95)):
            value = getattr(self, field)
            if not low <= value <= high:
                raise UserError(f"{field}={value}: expected a value from {low} to {high}")

    def pdf_key(self) -> str:
        """Everything that decides what a PDF's pages look like: a change renders the document anew."""
        return (
            f"pdf/{_PDF_PIPELINE} renderer={self.renderer.value} dpi={self.dpi} "
            f"max_side={self.max_side} jpeg_quality={self.jpeg_quality}"
        )

    def image_key(self) -> str:
        """As `pdf_key`, for documents that are folders of page images."""
        return f"images/{_IMAGE_PIPELINE} max_side={self.max_side} jpeg_quality={self.jpeg_quality}"
