"""The text of a page: which layers are broken, and which text OCR replaces them by."""

import io

import pypdfium2
import pytest
from PIL import Image

from docagent_rl.documents import workers
from docagent_rl.documents.manifest import TextReading, TextReason, TextSource
from docagent_rl.documents.ocr import engine_name
from docagent_rl.documents.page_text import (
    TextLayer,
    assess,
    is_blank,
    may_hide_text,
    read_page,
    unmapped_share,
)
from docagent_rl.documents.settings import OcrMode
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

SOUND = "A page of sound text."
LAYER, OCR, NONE = TextSource.LAYER, TextSource.OCR, TextSource.NONE


def read(layer, mode=OcrMode.AUTO, shows=TEXT):
    buffer = io.BytesIO()
    draw_text(shows).save(buffer, "JPEG", quality=90)
    found = read_page("page 1", buffer.getvalue(), layer, mode)
    return found.text, found.reading


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
def test_which_text_is_taken(layer, mode, shows, text, source, reason):
    engine = engine_name() if source is OCR else None
    assert read(TextLayer(layer), mode, shows) == (text, TextReading(source, reason, engine))


@pytest.mark.usefixtures("quick_ocr")
def test_a_sparse_layer_gives_way_to_more_text_and_a_page_has_time_of_its_own(monkeypatch):
    reports: list[str] = []
    monkeypatch.setattr(workers, "_listeners", [reports.append])
    text, reading = read(TextLayer("a stamp of 2020", hidden=lambda: True))
    assert (text, reading.reason) == ("\n".join(TEXT), TextReason.SPARSE)
    text, reading = read(TextLayer("a stamp of 2020", hidden=lambda: True), shows=TEXT[:1])
    assert (text, reading.reason) == (TEXT[0], TextReason.SPARSE)
    assert reports == ["page 1 (OCR)"] * 2


@pytest.mark.parametrize(("layer", "source"), [("", NONE), ("\ufffd\ufffd", LAYER)])
def test_a_drawing_that_reads_as_dashes_has_no_text(layer, source):
    found = read(TextLayer(layer), shows=["- - - - * * *"])
    assert found == (layer, TextReading(source, TextReason.NOTHING_READ, engine_name()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ok", TextReason.SOUND),
        ("図1 売上高の推移", TextReason.SOUND),
        ("\uf0b7 a list\n\uf0b7 of points with a bullet from a symbol font", TextReason.SOUND),
        (" \n\t ", TextReason.EMPTY),
        ("\ufffd" * 5 + " ab", TextReason.GARBLED),
        ("".join(chr(0xE000 + ord(letter)) for letter in "private area"), TextReason.GARBLED),
        ("(cid:12)(cid:34)(cid:56) ab", TextReason.GARBLED),
    ],
)
def test_states_of_texts(text, expected):
    assert assess(text, 0.0, lambda: False) is expected


def test_glyphs_without_characters_and_little_text_beside_pictures():
    assert assess("only what is mapped", 0.4, lambda: False) is TextReason.GARBLED
    assert assess("", 0.4, lambda: False) is TextReason.GARBLED
    assert assess("--- 12 ---", 0.0, lambda: True) is TextReason.SPARSE
    assert assess("letters " * 50, 0.0, lambda: True) is TextReason.SOUND
    assert is_blank(Image.new("L", (50, 50), 130))
    assert not is_blank(draw_text(["x"]).convert("L"))


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
