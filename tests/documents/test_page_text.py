from __future__ import annotations

import io
import json
import string

import numpy as np
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import seal
from docagent_rl.documents import page_text, workers
from docagent_rl.documents.manifest import (
    ChunkEntry,
    PageEntry,
    TextReading,
    TextReason,
    TextSource,
    dump_record,
    read_record,
)
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.ocr import OcrCache, OcrLine, OcrMode, OcrSettings, Word, engine_key
from docagent_rl.documents.page_text import Layer, Picture, is_better, is_current, printed, read_page
from docagent_rl.documents.text_layer import assess, is_blank, letters_shown, may_hide_text, unmapped_share
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

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
        return read_page("page 1", picture, Layer(layer), OcrSettings(mode), cache)

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


@pytest.mark.usefixtures("quick_ocr")
def test_a_page_is_read_once_and_has_time_of_its_own(read, monkeypatch):
    beats: list[str] = []
    monkeypatch.setattr(workers, "_listeners", [beats.append])
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
    path.write_text(seal(json.dumps({"schema_version": 1, "first": 1, "pages": pages})))
    return read_record(ChunkEntry, path).pages


def test_records_keep_how_pages_were_read(tmp_path):
    reading = TextReading(TextSource.OCR, TextReason.GARBLED, "reader 1")
    record = ChunkEntry(first=1, pages=(PageEntry(5, 6, DIGEST, DIGEST, None, DIGEST, reading),))
    (tmp_path / "1.json").write_text(dump_record(record))
    assert read_record(ChunkEntry, tmp_path / "1.json").pages == record.pages
    # a text by OCR names its engine
    for wrong in ({"source": "ocr", "reason": "empty"}, {"source": "book", "reason": "empty"}, {}, 5):
        with pytest.raises(UserError, match=r"1\.json"):
            _read(tmp_path / "1.json", {**PAGE, "reading": wrong})


PROSE = (
    "The committee met in spring and agreed that the bridge over the river should be repaired before winter. "
    "Work began in June with a survey of the pillars, two of which had sunk by a few centimetres. "
    "The mayor thanked all volunteers."
)
STAMP = "Downloaded from the library"
SOUND = [
    PROSE,
    "ok",
    "Seite 3 von 12",
    "図1 売上高の推移",
    "Рис. 3. Схема установки",
    "تقرير السنة",
    "--- 12 ---",
]
SOUND += [
    "Table 3 " + " ".join(map(str, range(1000, 1100))),
    "\n".join(f"{n}.{n} Heading {'. ' * 60} {n}" for n in range(1, 30)),
    "\uf0b7 a list\n\uf0b7 of points with a bullet from a symbol font",
    "for row in table: totals[row.name] += row.amount * factor  # as above\n" * 8,
]


def state(text, unmapped=0.0, picture=None):
    def shown():
        assert picture is not None, "the picture was asked for"
        return picture.convert("L")

    return assess(text, unmapped, lambda: picture is not None, shown)


def _shifted(text, by):
    for alphabet in (string.ascii_lowercase, string.ascii_uppercase):
        text = text.translate(str.maketrans(alphabet, alphabet[by:] + alphabet[:by]))
    return text


def _among_the_marks():
    moved = "".join(chr(ord(letter) - 62) if letter.islower() else letter for letter in PROSE)
    return moved.translate({c: c + 33 for c in range(32)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, TextReason.SOUND) for text in SOUND],
        ("", TextReason.EMPTY),
        (" \n\t ", TextReason.EMPTY),
        ("\ufffd" * 5 + " ab", TextReason.GARBLED),
        ("".join(chr(0xE000 + ord(letter)) for letter in "private area"), TextReason.GARBLED),
        ("(cid:12)(cid:34)(cid:56) ab", TextReason.GARBLED),
        ("\u0378\u0379 un", TextReason.GARBLED),
        *[(_shifted(PROSE, by), TextReason.UNLIKELY) for by in (1, 3, 7, 20)],
        (_among_the_marks(), TextReason.UNLIKELY),
    ],
)
def test_states_of_texts(text, expected):
    assert state(text) is expected


def test_glyphs_without_characters_and_little_beside_the_letters_of_the_picture():
    assert state("only what is mapped", unmapped=0.4) is TextReason.GARBLED
    assert state("", unmapped=0.4) is TextReason.GARBLED
    picture = draw_text([*TEXT, STAMP])
    assert state("--- 12 ---", picture=picture) is TextReason.NO_LETTERS
    assert state(STAMP, picture=picture) is TextReason.SPARSE
    assert state("\n".join([*TEXT, STAMP]), picture=picture) is TextReason.SOUND


def test_letters_are_counted_about_right():
    for points, lines in ((8, [*TEXT, *TEXT]), (14, [*TEXT, *TEXT]), (24, TEXT)):
        picture = draw_text(lines, points).convert("L")
        letters = sum(len(line.replace(" ", "")) for line in lines)
        for each in (picture, picture.point(lambda value: 255 - value)):
            assert 0.7 * letters <= letters_shown(each) <= 1.2 * letters
    ramp = Image.fromarray(np.tile(np.linspace(0, 255, 800, dtype=np.uint8), (500, 1)))
    for picture in (ramp, Image.new("L", (800, 500), 200), Image.new("L", (800, 3))):
        assert letters_shown(picture) == 0
    assert is_blank(Image.new("L", (50, 50), 130))
    assert not is_blank(draw_text(["x"]).convert("L"))


@settings(max_examples=30)
@given(st.text(max_size=200), st.floats(0, 1))
def test_every_text_has_a_state(text, unmapped):
    assert state(text, unmapped) in TextReason


def test_fonts_that_map_nothing_and_pictures_that_may_hide_text(tmp_path):
    path = write_layer(tmp_path / "a.pdf", ["é" * 10 + "ü" * 10] * 3)
    path.write_bytes(path.read_bytes().replace(b"/ToUnicode", b"/ToXnicode"))
    with pypdfium2.PdfDocument(path) as pdf:
        assert unmapped_share(pdf[0].get_textpage()) > 0.5
    with pypdfium2.PdfDocument(write_layer(tmp_path / "b.pdf", TEXT)) as pdf:
        assert unmapped_share(pdf[0].get_textpage()) == 0
        assert not may_hide_text(pdf[0])
    with pypdfium2.PdfDocument(write_scan(tmp_path / "c.pdf", [TEXT])) as pdf:
        assert may_hide_text(pdf[0])
