from __future__ import annotations

import io
import json

import pytest
from PIL import Image

from docagent_rl.documents import heartbeat, page_text
from docagent_rl.documents.manifest import ChunkEntry, PageEntry, dump_record, read_record
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.ocr import OcrMode, OcrSettings, engine_key
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.ocr.words import OcrLine, Word
from docagent_rl.documents.page_text import Layer, PageReader, Picture, is_better, is_current, printed
from docagent_rl.documents.reading import TextReading, TextReason, TextSource
from docagent_rl.errors import UserError
from tests.documents.scans import TEXT, draw_text

SOUND = "A page of sound text."
LAYER, OCR, NONE = TextSource.LAYER, TextSource.OCR, TextSource.NONE


def _jpeg(image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


@pytest.fixture
def read(tmp_path):
    """Reads the page of a layer and a picture."""
    cache = OcrCache(tmp_path / "ocr", ObjectStore(tmp_path / "objects"))

    def read(layer, mode=OcrMode.AUTO, shows=TEXT, picture=None):
        picture = picture or Picture(_jpeg(draw_text(shows)))
        return PageReader(OcrSettings(mode), cache).read("page 1", picture, Layer(layer))

    return read


@pytest.mark.usefixtures("quick_ocr")
@pytest.mark.parametrize(
    ("layer", "mode", "shows", "text", "source", "reason"),
    [
        (SOUND, OcrMode.AUTO, TEXT, SOUND, LAYER, TextReason.SOUND),
        ("", OcrMode.AUTO, TEXT, "\n".join(TEXT), OCR, TextReason.EMPTY),
        ("\ufffd\ufffd", OcrMode.NEVER, TEXT, "\ufffd\ufffd", LAYER, TextReason.OFF),
        ("", OcrMode.NEVER, TEXT, "", NONE, TextReason.OFF),
        (SOUND, OcrMode.ALWAYS, TEXT, "\n".join(TEXT), OCR, TextReason.ASKED),
        ("", OcrMode.AUTO, [], "", NONE, TextReason.BLANK),
    ],
)
def test_which_text_is_taken(read, layer, mode, shows, text, source, reason):
    page = read(layer, mode, shows)
    key = engine_key(OcrSettings()) if source is OCR else None
    assert (page.text, page.reading) == (text, TextReading(source, reason, key))
    if source is OCR:
        assert [line.text for line in page.lines] == list(TEXT)
        assert [word.text for word in page.words[0].words] == TEXT[0].split()
        assert page.words[0].box == page.lines[0].box
    else:
        assert page.words == ()


@pytest.mark.slow
def test_a_layer_that_looked_broken_is_kept_when_it_says_what_is_shown(read):
    """Its letters are unlikely, but they are those of the page."""
    strange = ["ZZUQ KLVB MPWX DFGH CCYV", "BLQK VVXZ UUPM WDFG HYCC"] * 4
    page = read("\n".join(strange), shows=strange)
    assert page.reading.reason is TextReason.NO_BETTER
    assert page.text == "\n".join(strange)


@pytest.mark.usefixtures("quick_ocr")
def test_a_page_is_read_once_and_has_time_of_its_own(read, monkeypatch):
    beats: list[str] = []
    monkeypatch.setattr(heartbeat, "_listeners", [beats.append])
    first = read("")
    assert beats == ["page 1 (OCR)"]
    monkeypatch.setattr(page_text.make_engine, "read", None)
    assert read("") == first


@pytest.mark.usefixtures("quick_ocr")
def test_a_larger_picture_is_read_where_the_stored_one_is_small(read):
    small = _jpeg(draw_text(TEXT).resize((160, 104), Image.Resampling.BILINEAR))
    asked = []
    page = read("", picture=Picture(small, lambda side: asked.append(side) or draw_text(TEXT)))
    assert page.text == "\n".join(TEXT)
    assert len(asked) == 1


BOX = (0.1, 0.1, 0.2, 0.2)


@pytest.mark.parametrize(
    ("layer", "read", "state", "better"),
    [
        ("", "x", TextReason.EMPTY, True),
        ("\ue001\ue002\ue003", "x", TextReason.GARBLED, True),
        ("12", "12", TextReason.NO_LETTERS, False),
        ("12", "page 12", TextReason.NO_LETTERS, True),
        ("stamp of 2020", "stamp of 2020", TextReason.SPARSE, False),
        ("stamp of 2020", "stamp of 2020 and more", TextReason.SPARSE, True),
        ("ifmmp xpsme", "hello world", TextReason.UNLIKELY, True),
        ("hello world of", "hello world", TextReason.UNLIKELY, False),
        ("ifmmp xpsme of more", "he", TextReason.UNLIKELY, False),
    ],
)
def test_what_takes_the_place_of_a_layer(layer, read, state, better):
    lines = (OcrLine(tuple(Word(word, BOX) for word in read.split())),)
    assert is_better(lines, layer, state) is better


READINGS = {
    "old": None,
    "off": TextReading(LAYER, TextReason.OFF),
    "sound": TextReading(LAYER, TextReason.SOUND),
    "blank": TextReading(NONE, TextReason.BLANK),
    "read": TextReading(OCR, TextReason.EMPTY, "e1"),
    "asked": TextReading(OCR, TextReason.ASKED, "e1"),
    "kept": TextReading(LAYER, TextReason.NO_BETTER, "e1"),
    "nothing": TextReading(NONE, TextReason.NOTHING_READ, "e1"),
}


@pytest.mark.parametrize(
    ("mode", "engine", "current"),
    [
        ("never", None, {"old", "off", "sound", "blank"}),
        ("auto", "e1", {"sound", "blank", "read", "kept", "nothing"}),
        ("auto", "e2", {"sound", "blank"}),
        ("always", "e1", {"blank", "read", "asked", "nothing"}),
        ("always", "e2", {"blank"}),
    ],
)
def test_which_pages_are_read_anew(mode, engine, current):
    settings = OcrSettings(OcrMode(mode))
    assert {name for name, reading in READINGS.items() if is_current(reading, settings, engine)} == current


def test_letters_without_height_do_not_make_a_line_small():
    bottoms = {"aces": 0.105, "Aces": 0.1072, "Agility": 0.1093}
    lines = tuple(OcrLine((Word(word, (0.1, 0.1, 0.2, bottom)),)) for word, bottom in bottoms.items())
    sizes = {line.style.size for line in printed(lines, margin=1.0)}
    assert max(sizes) - min(sizes) <= 0.2


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
