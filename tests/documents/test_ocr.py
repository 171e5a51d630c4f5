"""OCR of pictures, and the order of their lines."""

import numpy as np
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.ocr import Piece, engine_name, plain_text, reading_order, recognize
from tests.documents.scans import TEXT, draw_text


def test_words_that_a_line_splits_are_joined():
    assert plain_text(["the exam-", "ple of", "1990-", "1999 "]) == "the example of\n1990-\n1999"


def piece(text: str, left: float, top: float, width: float = 0.4, height: float = 0.01) -> Piece:
    return Piece(text, (left, top, left + width, top + height))


def test_columns_are_read_one_after_the_other_and_cells_of_a_row_make_one_line():
    prose = "a line of prose that is long, number"
    left = [piece(f"{prose} l{n}", 0.05, 0.2 + 0.02 * n) for n in range(8)]
    right = [piece(f"{prose} r{n}", 0.55, 0.2 + 0.02 * n) for n in range(8)]
    title = piece("A title over both columns", 0.05, 0.05, 0.9)
    foot = piece("A foot under both of them", 0.05, 0.9, 0.9)
    mixed = [each for pair in zip(left, right, strict=True) for each in pair]
    expected = [each.text for each in (title, *left, *right, foot)]
    assert reading_order([foot, *mixed, title]) == expected
    # cells of a row make one line, and pieces over each other stay apart
    rows = [
        [piece(f"r{r}c{c}", 0.1 + 0.3 * c, 0.1 + 0.03 * r, 0.1) for c in range(3)] for r in range(6)
    ]
    cells = [row[c] for c in (2, 0, 1) for row in rows]
    assert reading_order(cells) == [f"r{r}c0 r{r}c1 r{r}c2" for r in range(6)]
    assert reading_order([piece("low", 0.1, 0.108), piece("high", 0.1, 0.1)]) == ["high", "low"]


spot = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0.01, 0.1), st.floats(0.001, 0.1))


@settings(max_examples=50)
@given(st.lists(spot, max_size=20))
def test_no_piece_is_lost_or_doubled(spots):
    pieces = [piece(f"prose-that-is-long-enough-{n}", *at) for n, at in enumerate(spots)]
    words = " ".join(reading_order(pieces)).split()
    assert sorted(words) == sorted(each.text for each in pieces)


@pytest.mark.slow
def test_lines_are_read_without_a_network(monkeypatch):
    """The engine does not need the network to start, either."""

    def refuse(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    assert recognize(draw_text(TEXT)) == "\n".join(TEXT)


@pytest.mark.slow
def test_pictures_of_odd_sizes_and_noise_are_read_without_an_error():
    noise = np.random.default_rng(3).integers(0, 255, (1600, 1600, 3), dtype=np.uint8)
    for width, height in ((8, 8), (8, 1600), (1600, 8), (31, 33), (300, 300)):
        assert recognize(Image.new("RGB", (width, height), "white")) == ""
        recognize(Image.fromarray(noise[:height, :width]))


def test_what_is_missing_is_one_error(monkeypatch):
    monkeypatch.setattr("docagent_rl.documents.ocr._DETECTION", "other.onnx")
    with pytest.raises(UserError, match=r"other\.onnx"):
        engine_name()
