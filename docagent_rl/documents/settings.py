"""Settings of an ingest: how pages are drawn, and which are read by OCR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.errors import UserError
from docagent_rl.documents.limits import check_ranges

# Raised when the stored pages would come out differently for the same settings: documents ingested before
# are then stored anew when they are ingested again, and stay readable until then.
_PDF_PIPELINE = 3
_IMAGE_PIPELINE = 1
_LANGUAGE = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?(\+[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?)*")


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
        check_ranges(self, dpi=(10, 1200), max_side=(16, 65500), jpeg_quality=(1, 95))

    def pdf_key(self) -> str:
        """Return everything that decides what a PDF's pages look like: a change renders the document anew."""
        return (
            f"pdf/{_PDF_PIPELINE} renderer={self.renderer.value} dpi={self.dpi} "
            f"max_side={self.max_side} jpeg_quality={self.jpeg_quality}"
        )

    def image_key(self) -> str:
        """Return the same for documents that are folders of page images."""
        return f"images/{_IMAGE_PIPELINE} max_side={self.max_side} jpeg_quality={self.jpeg_quality}"


class OcrMode(StrEnum):
    """Which pages are read by OCR."""

    AUTO = "auto"
    """Those whose text layer is empty or broken."""
    NEVER = "never"
    ALWAYS = "always"
    """All that show anything."""


class OcrEngineKind(StrEnum):
    """The programs that read the pictures of pages."""

    RAPIDOCR = "rapidocr"
    """rapidocr over onnxruntime; its package holds the models."""
    TESSERACT = "tesseract"
    """The program `tesseract`, which must be installed: less than half the time, more errors."""


@dataclass(frozen=True, slots=True)
class OcrSettings:
    """Settings of OCR.

    Raises:
        UserError: `language` is no list of tesseract's languages.
    """

    mode: OcrMode = OcrMode.AUTO
    engine: OcrEngineKind = OcrEngineKind.RAPIDOCR
    language: str = "eng"
    """For tesseract: names of its language files, joined by `+`. rapidocr's one model reads Chinese, Japanese
    and the Latin alphabets."""

    def __post_init__(self) -> None:
        if not _LANGUAGE.fullmatch(self.language):
            raise UserError(
                f"language={self.language!r}: expected names of tesseract's languages, as eng+deu"
            )
