from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.documents.ocr.order import reading_order
from docagent_rl.documents.ocr.words import OcrLine, Word


def line(text: str, left: float, top: float, width: float = 0.4, height: float = 0.01) -> OcrLine:
    return OcrLine((Word(text, (left, top, left + width, top + height)),))


def test_columns_are_read_one_after_the_other():
    prose = "a line of prose that is long, number"
    left = [line(f"{prose} l{n}", 0.05, 0.2 + 0.02 * n) for n in range(8)]
    right = [line(f"{prose} r{n}", 0.55, 0.2 + 0.02 * n) for n in range(8)]
    title = line("A title over both columns", 0.05, 0.05, 0.9)
    foot = line("A foot under both of them", 0.05, 0.9, 0.9)
    mixed = [piece for pair in zip(left, right, strict=True) for piece in pair]
    assert reading_order([foot, *mixed, title]) == (title, *left, *right, foot)


def test_cells_of_a_row_make_one_line():
    rows = [[line(f"r{r}c{c}", 0.1 + 0.3 * c, 0.1 + 0.03 * r, 0.1) for c in range(3)] for r in range(6)]
    cells = [row[c] for c in (2, 0, 1) for row in rows]
    assert [row.text for row in reading_order(cells)] == [f"r{r}c0 r{r}c1 r{r}c2" for r in range(6)]


def test_pieces_over_each_other_stay_apart():
    assert [row.text for row in reading_order([line("low", 0.1, 0.108), line("high", 0.1, 0.1)])] == [
        "high",
        "low",
    ]


spot = st.tuples(st.floats(0, 0.9), st.floats(0, 0.9), st.floats(0.01, 0.1), st.floats(0.001, 0.1))


@given(st.lists(spot, max_size=60))
def test_no_word_is_lost_or_doubled(spots):
    lines = [line(f"a line of prose, number {n}", *at) for n, at in enumerate(spots)]
    words = [word.text for row in reading_order(lines) for word in row.words]
    assert sorted(words) == sorted(piece.text for piece in lines)
