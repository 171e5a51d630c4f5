"""Words that are read, their order on the page, what is kept of them, and engines on real pictures."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.documents.ocr import (
    OcrCache,
    OcrEngineKind,
    OcrLine,
    OcrSettings,
    Word,
    dump_words,
    engine_key,
    fractions,
    lines_of,
    load_words,
    make_engine,
    plain_text,
)
from docagent_rl.documents.ocr.rapid import reading_order
from tests.documents.scans import TEXT, draw_text, font

BOX = (0.1, 0.2, 0.3, 0.4)
side = st.floats(-1e6, 1e6) | st.just(float("nan"))


@given(st.tuples(side, side, side, side), st.tuples(st.integers(1, 30_000), st.integers(1, 30_000)))
def test_any_box_becomes_one_inside_the_page(box, size):
    left, top, right, bottom = fractions(box, size)
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom <= 1
    line = OcrLine((Word("x", (left, top, right, bottom)),))
    assert load_words(dump_words([line])) == (line,)


@settings(max_examples=50)
@given(st.lists(st.lists(st.text(min_size=1, max_size=5), max_size=3), max_size=3))
def test_any_words_can_be_stored_and_read(texts):
    lines = lines_of([[(text, BOX) for text in line] for line in texts])
    assert load_words(dump_words(lines)) == lines
    assert all(word.text and not any(map(str.isspace, word.text)) for line in lines for word in line.words)
    plain_text(lines).encode("utf-8")


def test_boxes_and_words_by_hand():
    assert fractions((10, 20, 30, 50), (100, 200)) == (0.1, 0.1, 0.3, 0.25)
    line = OcrLine((Word("a", (0.1, 0.2, 0.2, 0.3)), Word("b", (0.3, 0.1, 0.5, 0.25))))
    assert (line.text, line.box) == ("a b", (0.1, 0.1, 0.5, 0.3))
    split = [["the", "exam-"], ["ple", "of"], ["1990-"], ["1999"]]
    lines = lines_of([[(word, BOX) for word in words] for words in split])
    assert plain_text(lines) == "the example of\n1990-\n1999"
    for wrong in ("5", '["a"]', "[[5]]", '[[["a",0,0,0]]]', '[[["a",0.5,0,0.2,1]]]', "[[[1,0,0,1,1]]]"):
        with pytest.raises(ValueError):
            load_words(wrong)


def line(text: str, left: float, top: float, width: float = 0.4, height: float = 0.01) -> OcrLine:
    return OcrLine((Word(text, (left, top, left + width, top + height)),))


def test_columns_are_read_one_after_the_other_and_cells_of_a_row_make_one_line():
    prose = "a line of prose that is long, number"
    left = [line(f"{prose} l{n}", 0.05, 0.2 + 0.02 * n) for n in range(8)]
    right = [line(f"{prose} r{n}", 0.55, 0.2 + 0.02 * n) for n in range(8)]
    title = line("A title over both columns", 0.05, 0.05, 0.9)
    foot = line("A foot under both of them", 0.05, 0.9, 0.9)
    mixed = [piece for pair in zip(left, right, strict=True) for piece in pair]
    assert reading_order([foot, *mixed, title]) == (title, *left, *right, foot)
    # cells of a row make one line, and pieces over each other stay apart
    rows = [[line(f"r{r}c{c}", 0.1 + 0.3 * c, 0.1 + 0.03 * r, 0.1) for c in range(3)] for r in range(6)]
    cells = [row[c] for c in (2, 0, 1) for row in rows]
    assert [row.text for row in reading_order(cells)] == [f"r{r}c0 r{r}c1 r{r}c2" for r in range(6)]
    over = reading_order([line("low", 0.1, 0.108), line("high", 0.1, 0.1)])
    assert [row.text for row in over] == ["high", "low"]


spot = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0.01, 0.1), st.floats(0.001, 0.1))


@settings(max_examples=50)
@given(st.lists(spot, max_size=20))
def test_no_word_is_lost_or_doubled(spots):
    lines = [line(f"a line of prose, number {n}", *at) for n, at in enumerate(spots)]
    words = [word.text for row in reading_order(lines) for word in row.words]
    assert sorted(words) == sorted(piece.text for piece in lines)


PICTURE, OTHER, ENGINE = "ab" * 32, "cd" * 32, "reader 1.0"
LINES = (OcrLine((Word("two", (0.1, 0.1, 0.2, 0.2)), Word("words", (0.3, 0.1, 0.5, 0.2)))),)


@pytest.fixture
def cache(tmp_path) -> OcrCache:
    return OcrCache(tmp_path / "ocr", ObjectStore(tmp_path / "objects"))


@pytest.mark.parametrize("lines", [LINES, ()])
def test_what_was_read_is_found_by_picture_and_engine(cache, lines):
    cache.put(PICTURE, ENGINE, lines)
    assert cache.get(PICTURE, ENGINE) == lines
    assert cache.get(PICTURE, "reader 1.1") is None
    assert cache.get(OTHER, ENGINE) is None


def test_damage_and_the_record_of_another_picture_are_as_if_not_there(cache):
    cache.put(PICTURE, ENGINE, LINES)
    (path,) = cache.root.rglob("*.json")
    data = path.read_bytes()
    for position in range(0, len(data), 7):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        assert cache.get(PICTURE, ENGINE) is None
    path.unlink()
    cache.put(OTHER, ENGINE, ())
    next(cache.root.rglob("*.json")).write_bytes(data)
    assert cache.get(OTHER, ENGINE) is None
    path.write_bytes(data)
    (words,) = cache.objects.root.rglob(f"{cache.objects.put(dump_words(LINES))}*{Kind.TEXT.value}")
    words.write_bytes(b"no words")
    assert cache.get(PICTURE, ENGINE) is None
    cache.put(PICTURE, ENGINE, LINES)
    assert cache.get(PICTURE, ENGINE) == LINES


needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")
ENGINES = pytest.mark.parametrize("name", ["rapidocr", pytest.param("tesseract", marks=needs_tesseract)])


def _engine(name):
    return make_engine(OcrSettings(engine=OcrEngineKind(name)))


@pytest.mark.slow
@ENGINES
def test_lines_are_read_and_words_lie_where_they_are_drawn(name, monkeypatch):
    """And without a network, also when the engine starts."""

    def refuse(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    image, engine = draw_text(TEXT), _engine(name)
    # the key is known before an engine starts
    assert engine.key == engine_key(OcrSettings(engine=OcrEngineKind(name)))
    lines = engine.read(image)
    assert [line.text for line in lines] == list(TEXT)
    assert [word.text for word in lines[1].words] == TEXT[1].split()
    start = 40
    for word in lines[1].words:
        end = start + font(14).getlength(word.text)
        left, top, right, bottom = (side * edge for side, edge in zip(word.box, image.size * 2, strict=True))
        assert (left, right) == pytest.approx((start, end), abs=14)
        assert 86 <= top < 110 < bottom <= 140
        start = end + font(14).getlength(" ")


@pytest.mark.slow
@ENGINES
def test_pictures_of_odd_sizes_and_noise_are_read_without_an_error(name):
    noise = np.random.default_rng(3).integers(0, 255, (1600, 1600, 3), dtype=np.uint8)
    for width, height in ((8, 8), (8, 1600), (1600, 8), (31, 33), (300, 300)):
        assert _engine(name).read(Image.new("RGB", (width, height), "white")) == ()
        lines = _engine(name).read(Image.fromarray(noise[:height, :width]))
        assert all(line.text.strip() for line in lines)


def test_what_is_missing_is_one_error(monkeypatch, tmp_path):
    monkeypatch.setattr("docagent_rl.documents.ocr.rapid._DETECTION", "other.onnx")
    with pytest.raises(UserError, match=r"other\.onnx"):
        engine_key(OcrSettings())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="tesseract-ocr"):
        engine_key(OcrSettings(engine=OcrEngineKind.TESSERACT))
