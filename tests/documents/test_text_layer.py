from __future__ import annotations

import string

import numpy as np
import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.documents.reading import TextReason
from docagent_rl.documents.text_layer import assess, is_blank, letters_shown, may_hide_text, unmapped_share
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

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


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("points", [8, 14, 24])
def test_letters_are_counted_about_right(points, invert):
    lines = TEXT if points > 14 else [*TEXT, *TEXT]
    picture = draw_text(lines, points).convert("L")
    if invert:
        picture = picture.point(lambda value: 255 - value)
    letters = sum(len(line.replace(" ", "")) for line in lines)
    assert 0.7 * letters <= letters_shown(picture) <= 1.2 * letters


def test_what_is_no_text_shows_few_letters_and_one_colour_is_blank():
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
