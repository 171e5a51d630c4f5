import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.documents.ocr.words import (
    OcrLine,
    Word,
    dump_words,
    fractions,
    lines_of,
    load_words,
    plain_text,
)

BOX = (0.1, 0.2, 0.3, 0.4)
side = st.floats(-1e6, 1e6) | st.just(float("nan"))


@given(st.tuples(side, side, side, side), st.tuples(st.integers(1, 30_000), st.integers(1, 30_000)))
def test_any_box_becomes_one_inside_the_page(box, size):
    left, top, right, bottom = fractions(box, size)
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom <= 1
    line = OcrLine((Word("x", (left, top, right, bottom)),))
    assert load_words(dump_words([line])) == (line,)


def test_pixels_become_fractions():
    assert fractions((10, 20, 30, 50), (100, 200)) == (0.1, 0.1, 0.3, 0.25)


@given(st.lists(st.lists(st.text(min_size=1, max_size=8), max_size=4), max_size=4))
def test_any_words_can_be_stored_and_read(texts):
    """Lone surrogates and control characters too."""
    lines = lines_of([[(text, BOX) for text in line] for line in texts])
    assert load_words(dump_words(lines)) == lines
    assert all(word.text and not any(map(str.isspace, word.text)) for line in lines for word in line.words)
    plain_text(lines).encode("utf-8")


def test_words_split_at_a_line_end_are_joined():
    lines = lines_of(
        [[("the", BOX), ("exam-", BOX)], [("ple", BOX), ("of", BOX)], [("1990-", BOX)], [("1999", BOX)]]
    )
    assert plain_text(lines) == "the example of\n1990-\n1999"


@pytest.mark.parametrize(
    "text", ["5", '["a"]', "[[5]]", '[[["a",0,0,0]]]', '[[["a",0.5,0,0.2,1]]]', "[[[1,0,0,1,1]]]"]
)
def test_what_is_no_list_of_words_is_refused(text):
    with pytest.raises(ValueError):
        load_words(text)


def test_a_line_holds_its_words():
    line = OcrLine((Word("a", (0.1, 0.2, 0.2, 0.3)), Word("b", (0.3, 0.1, 0.5, 0.25))))
    assert line.text == "a b"
    assert line.box == (0.1, 0.1, 0.5, 0.3)
