"""Text out of pictures of pages, where a document has none of its own."""

from __future__ import annotations

from docagent_rl.documents.ocr.engine import OcrEngine, engine_key, make_engine
from docagent_rl.documents.ocr.settings import OcrEngineKind, OcrMode, OcrSettings
from docagent_rl.documents.ocr.words import OcrLine, Word

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
