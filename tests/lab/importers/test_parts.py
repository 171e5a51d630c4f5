"""Literals and boxes, tested separately."""

import math

import pytest

from docagent_rl.lab.importers.finishing import normalised
from docagent_rl.lab.importers.native import as_pages, as_texts, parse_literal


@pytest.mark.parametrize(
    "text",
    [
        "[3",
        "open('x')",
        "[x for x in y]",
        "",
        "NaN",
        "b'a'",
        "{1, 2}",
        "1j",
        "[" * 9999,
        "a" * 200_000,
    ],
)
def test_nothing_else_is(text):
    with pytest.raises(ValueError):
        parse_literal(text)


def test_lists_are_read_from_lists_and_texts():
    assert as_texts(["a", 2, 0.5]) == as_texts("['a', 2, 0.5]") == ["a", "2", "0.5"]
    assert as_pages(["4", 2, 3.0]) == as_pages('["4", 2, 3.0]') == [4, 2, 3]
    for value in ([True], [None], ["x"], [1.5], "3", {"a": 1}, ["9" * 5000]):
        with pytest.raises(ValueError):
            as_pages(value)


def test_boxes_are_clamped_and_flat_ones_dropped_in_the_frame_of_their_page():
    assert normalised((100, 100, 500, 250), (1000, 500)) == ((0.1, 0.2, 0.5, 0.5), False)
    assert normalised((-10, 0, 500, 1000), (1000, 500)) == ((0.0, 0.0, 0.5, 1.0), True)
    assert normalised((5, 5, 5, 9), (10, 10)) == (None, False)
    assert normalised((9, 5, 5, 9), (10, 10)) == (None, False)
    assert normalised((math.nan, 0, 1, 1), (1, 1)) == (None, False)
