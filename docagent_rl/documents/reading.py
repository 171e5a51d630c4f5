"""Where the text of a page comes from, and why from there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import ConfigDict


class TextSource(StrEnum):
    """What gave the text of a page."""

    LAYER = "layer"
    """The text layer of the PDF."""
    OCR = "ocr"
    """Its picture."""
    NONE = "none"
    """Nothing: it has no text."""


class TextReason(StrEnum):
    """Why a page's text comes from where it comes from; `text_layer.assess` says what is what."""

    SOUND = "sound"
    """The text layer is sound."""
    OFF = "ocr_off"
    """OCR is off: the text layer was taken as it is."""
    BLANK = "blank"
    """The page shows nothing that OCR could read."""
    EMPTY = "empty"
    """OCR: the text layer is empty, or there is none."""
    NO_LETTERS = "no_letters"
    """OCR: the text layer has no letters."""
    GARBLED = "garbled"
    """OCR: characters of the text layer stand for no letters."""
    UNLIKELY = "unlikely"
    """OCR: the letters of the text layer are not those of a language, and others are shown."""
    SPARSE = "sparse"
    """OCR: the page shows much more than its text layer says."""
    ASKED = "asked"
    """OCR was to read every page."""
    NO_BETTER = "ocr_no_better"
    """The text layer looked broken, but OCR did not find that it is."""
    NOTHING_READ = "nothing_read"
    """None, or the text layer as it is: OCR read nothing."""


@dataclass(frozen=True, slots=True)
class TextReading:
    """How the text of a page was read.

    Raises:
        ValueError: text by OCR, and no engine.
    """

    source: TextSource
    reason: TextReason
    engine: str | None = None
    """`OcrEngine.key` of what looked at the picture, whether its text was taken or not; None: nothing did."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.source is TextSource.OCR and not self.engine:
            raise ValueError("a text by OCR without its engine")
