"""OCR: text out of pictures of pages, where a document has none of its own."""

from __future__ import annotations

from functools import lru_cache

from docagent_rl.documents.limits import require_memory
from docagent_rl.documents.ocr.words import OcrEngine, OcrLine, Word
from docagent_rl.documents.settings import OcrEngineKind, OcrMode, OcrSettings

__all__ = [
    "OcrEngine",
    "OcrEngineKind",
    "OcrLine",
    "OcrMode",
    "OcrSettings",
    "Word",
    "engine_key",
    "make_engine",
]

_GIB = {OcrEngineKind.RAPIDOCR: 0.9, OcrEngineKind.TESSERACT: 0.1}
"""Address space that models, libraries and a page take."""


def engine_key(settings: OcrSettings) -> str:
    """Return the `OcrEngine.key` of the engine that `settings` name, without starting it.

    Raises:
        UserError: The engine is not installed, or lacks the language.
    """
    if settings.engine is OcrEngineKind.TESSERACT:
        from docagent_rl.documents.ocr import tesseract

        return tesseract.key(settings.language)
    from docagent_rl.documents.ocr import rapid

    return rapid.key()


@lru_cache(maxsize=1)
def make_engine(settings: OcrSettings) -> OcrEngine:
    """Return the engine that `settings` name; kept, as starting one takes a second.

    Raises:
        UserError: It is not installed, or lacks the language.
        MemoryError: This process may not take as much memory as it needs.
    """
    require_memory(_GIB[settings.engine])
    if settings.engine is OcrEngineKind.TESSERACT:
        from docagent_rl.documents.ocr.tesseract import Tesseract

        return Tesseract(settings.language)
    from docagent_rl.documents.ocr.rapid import Rapid

    return Rapid()
