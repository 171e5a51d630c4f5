"""Which pages are read by OCR, and by what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.base.errors import UserError

_LANGUAGE = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?(\+[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?)*")


class OcrMode(StrEnum):
    """Which pages are read by OCR."""

    AUTO = "auto"
    """Those whose text layer is empty or broken."""
    NEVER = "never"
    """None."""
    ALWAYS = "always"
    """All that show anything."""


class OcrEngineKind(StrEnum):
    """What reads the pictures of pages."""

    RAPIDOCR = "rapidocr"
    """rapidocr over onnxruntime; its package holds the models."""
    TESSERACT = "tesseract"
    """The program `tesseract`, which must be installed: less than half the time, more errors."""


@dataclass(frozen=True, slots=True)
class OcrSettings:
    """Settings of the reading of pictures.

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
