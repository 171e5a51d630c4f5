"""How pages were read: in records, and what is read anew."""

import json

import pytest

from docagent_rl.documents.jobs import Ocr
from docagent_rl.documents.manifest import ChunkEntry, PageEntry, dump_record, read_record
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.reading import TextReading, TextReason, TextSource
from docagent_rl.errors import UserError

DIGEST = "ab" * 32
PAGE = {"width": 5, "height": 6, "image": DIGEST, "text": None}


def _read(path, *pages):
    path.write_text(json.dumps({"schema_version": 1, "first": 1, "pages": pages}))
    return read_record(ChunkEntry, path).pages


def test_records_keep_how_pages_were_read(tmp_path):
    reading = TextReading(TextSource.OCR, TextReason.GARBLED, "reader 1")
    record = ChunkEntry(first=1, pages=(PageEntry(5, 6, DIGEST, DIGEST, None, DIGEST, reading),))
    (tmp_path / "1.json").write_text(dump_record(record))
    assert read_record(ChunkEntry, tmp_path / "1.json").pages == record.pages
    # those of earlier versions tell nothing of it
    assert _read(tmp_path / "1.json", PAGE) == (PageEntry(5, 6, DIGEST, None),)


@pytest.mark.parametrize(
    "reading",
    [{"source": "ocr", "reason": "empty"}, {"source": "book", "reason": "empty"}, {"reason": "sound"}, 5],
)
def test_other_readings_are_damage(tmp_path, reading):
    """A text by OCR names its engine."""
    with pytest.raises(UserError, match=r"1\.json"):
        _read(tmp_path / "1.json", {**PAGE, "reading": reading})


def page(text, *reading):
    return PageEntry(
        10, 10, DIGEST, DIGEST if text else None, reading=TextReading(*reading) if reading else None
    )


PAGES = (
    page(True, TextSource.LAYER, TextReason.SOUND),
    page(True, TextSource.OCR, TextReason.EMPTY, "one"),
    page(False, TextSource.NONE, TextReason.NOTHING_READ, "one"),
    page(False),
    page(True),
)


@pytest.mark.parametrize(
    ("mode", "engine", "replace", "anew"),
    [
        (OcrMode.AUTO, "one", True, {4, 5}),
        (OcrMode.AUTO, "two", True, {2, 3, 4, 5}),
        (OcrMode.NEVER, None, True, {2, 3}),
        (OcrMode.ALWAYS, "one", True, {1, 4, 5}),
        (OcrMode.AUTO, "two", False, {3, 4}),  # pages without text alone
    ],
)
def test_what_is_read_anew(mode, engine, replace, anew):
    assert Ocr(OcrSettings(mode), engine).anew(PAGES, replace=replace) == anew
