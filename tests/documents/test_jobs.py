from docagent_rl.documents.jobs import Ocr
from docagent_rl.documents.manifest import PageEntry
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.reading import TextReading, TextReason, TextSource

DIGEST = "ab" * 32


def page(text, reading):
    return PageEntry(10, 10, DIGEST, DIGEST if text else None, reading=reading)


PAGES = (
    page(True, TextReading(TextSource.LAYER, TextReason.SOUND)),
    page(True, TextReading(TextSource.OCR, TextReason.EMPTY, "one")),
    page(False, TextReading(TextSource.NONE, TextReason.NOTHING_READ, "one")),
    page(False, None),
    page(True, None),
)


def test_what_is_read_anew_when_texts_may_be_replaced():
    auto = OcrSettings()
    assert Ocr(auto, "one").anew(PAGES, replace=True) == {4, 5}
    assert Ocr(auto, "two").anew(PAGES, replace=True) == {2, 3, 4, 5}
    assert Ocr(OcrSettings(OcrMode.NEVER), None).anew(PAGES, replace=True) == {2, 3}
    assert Ocr(OcrSettings(OcrMode.ALWAYS), "one").anew(PAGES, replace=True) == {1, 4, 5}


def test_else_only_pages_without_text_are():
    assert Ocr(OcrSettings(), "two").anew(PAGES, replace=False) == {3, 4}


def test_the_key_tells_modes_and_engines_apart():
    keys = {Ocr(OcrSettings(mode), engine).key() for mode in OcrMode for engine in ("one", "two")}
    assert len(keys) == 6
