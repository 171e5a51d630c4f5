from __future__ import annotations

import io

import pytest
from PIL import Image

from docagent_rl.documents import heartbeat
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.ocr import OcrMode, OcrSettings, engine_key, make_engine
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.ocr.words import OcrLine, Word
from docagent_rl.documents.page_text import Layer, PageReader, Picture, is_better, is_current, printed
from docagent_rl.documents.reading import TextReading, TextReason, TextSource
from tests.documents.scans import TEXT, draw_text

SOUND = "A page of sound text."


def picture(lines=TEXT) -> Picture:
    buffer = io.BytesIO()
    draw_text(lines).save(buffer, "JPEG", quality=90)
    return Picture(buffer.getvalue())


@pytest.fixture
def cache(tmp_path) -> OcrCache:
    return OcrCache(tmp_path / "ocr", ObjectStore(tmp_path / "objects"))


@pytest.fixture
def read(cache):
    return lambda layer, mode=OcrMode.AUTO, shows=TEXT: PageReader(OcrSettings(mode), cache).read(
        "page 1", picture(shows), Layer(layer)
    )


def test_a_sound_layer_is_taken(read):
    page = read(SOUND)
    assert (page.text, page.words) == (SOUND, ())
    assert page.reading == TextReading(TextSource.LAYER, TextReason.SOUND)


def test_a_picture_is_read_where_there_is_no_layer(read):
    page = read("")
    assert page.text == "\n".join(TEXT)
    assert page.reading == TextReading(TextSource.OCR, TextReason.EMPTY, engine_key(OcrSettings()))
    assert [line.text for line in page.lines] == list(TEXT)
    assert [word.text for word in page.words[0].words] == TEXT[0].split()
    assert page.words[0].box == page.lines[0].box


def test_never_takes_the_layer_whatever_it_is(read):
    page = read("\ufffd\ufffd", OcrMode.NEVER)
    assert (page.text, page.reading) == ("\ufffd\ufffd", TextReading(TextSource.LAYER, TextReason.OFF))
    assert read("", OcrMode.NEVER).reading == TextReading(TextSource.NONE, TextReason.OFF)


def test_always_reads_what_has_a_sound_layer(read):
    page = read(SOUND, OcrMode.ALWAYS)
    assert (page.text, page.reading.reason) == ("\n".join(TEXT), TextReason.ASKED)


def test_a_blank_page_is_not_read(read):
    assert read("", shows=[]).reading == TextReading(TextSource.NONE, TextReason.BLANK)


def test_a_layer_that_looked_broken_is_kept_when_it_says_what_is_shown(read):
    """Its letters are unlikely, but they are those of the page."""
    strange = ["ZZUQ KLVB MPWX DFGH CCYV", "BLQK VVXZ UUPM WDFG HYCC"] * 4
    page = read("\n".join(strange), shows=strange)
    assert page.reading.reason is TextReason.NO_BETTER
    assert page.text == "\n".join(strange)


def test_what_was_read_once_is_not_read_again(read, cache, monkeypatch):
    first = read("")
    monkeypatch.setattr(type(make_engine(OcrSettings())), "read", None)
    assert read("") == first


def test_a_page_that_is_read_has_time_of_its_own(read, monkeypatch):
    beats: list[str] = []
    monkeypatch.setattr(heartbeat, "_listeners", [beats.append])
    read("")
    assert beats == ["page 1 (OCR)"]


def test_a_larger_picture_is_read_where_the_stored_one_is_small(cache):
    small = draw_text(TEXT).resize((160, 104), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=90)
    page = PageReader(OcrSettings(), cache).read(
        "page 1", Picture(buffer.getvalue(), lambda side: draw_text(TEXT)), Layer()
    )
    assert page.text == "\n".join(TEXT)


BOX = (0.1, 0.1, 0.2, 0.2)


def _lines(text):
    return (OcrLine(tuple(Word(word, BOX) for word in text.split())),)


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
    assert is_better(_lines(read), layer, state) is better


READINGS = {
    "old": None,
    "off": TextReading(TextSource.LAYER, TextReason.OFF),
    "sound": TextReading(TextSource.LAYER, TextReason.SOUND),
    "blank": TextReading(TextSource.NONE, TextReason.BLANK),
    "read": TextReading(TextSource.OCR, TextReason.EMPTY, "e1"),
    "asked": TextReading(TextSource.OCR, TextReason.ASKED, "e1"),
    "kept": TextReading(TextSource.LAYER, TextReason.NO_BETTER, "e1"),
    "nothing": TextReading(TextSource.NONE, TextReason.NOTHING_READ, "e1"),
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


def test_sizes_of_lines_are_those_of_their_letters(read):
    """The page is 260 points high: sizes are as if it were 792."""
    for line in read("", shows=["Height of letters", "no tall ones", "xxx xxxx xx"]).lines:
        assert line.style.size == pytest.approx(14 * 792 / 260, rel=0.25)


def test_letters_without_height_do_not_make_a_line_small():
    low = OcrLine((Word("aces", (0.1, 0.1, 0.2, 0.105)),))
    high = OcrLine((Word("Aces", (0.1, 0.1, 0.2, 0.1072)),))
    deep = OcrLine((Word("Agility", (0.1, 0.1, 0.2, 0.1093)),))
    sizes = {line.style.size for line in printed((low, high, deep), margin=1.0)}
    assert max(sizes) - min(sizes) <= 0.2
