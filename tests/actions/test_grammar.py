from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions.base import Crop, Invalid, InvalidReason
from docagent_rl.actions.grammar import read_box

SPANS = ((0, 9), (2, 7))


def box_of(text):
    action = read_box(text, *SPANS)
    assert isinstance(action, Crop), action
    return action.boxes


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("[1, 2, 3, 4]", (1, 2, 3, 4)),
        ("[1.5,2e1,0,4E-1]", (1.5, 20, 0, 0.4)),
        ("[\n 9,\t8, 7, 6 ]", (9, 8, 7, 6)),
        ("[0, 0, 1e308, " + "9" * 300 + "]", (0, 0, 1e308, float("9" * 300))),
    ],
)
def test_boxes(text, box):
    assert box_of(text) == (box,)


@pytest.mark.parametrize(
    "text",
    [
        "", "1, 2, 3, 4", "[1, 2, 3]", "[1, 2, 3, 4, 5]", "[[1, 2, 3, 4]]", "[1, 2, 3, true]",
        "[1, 2, 3, null]", '[1, 2, 3, "4"]', "[1, 2, 3, -4]", "[1, 2, 3, NaN]", "[1, 2, 3, Infinity]",
        "[-Infinity, 2, 3, 4]", "[1, 2, 3, 1e999]", "[1, 2, 3, " + "9" * 400 + "]", "[1, 2, 3, 4] ok",
        "[1, 2, 3, 4,]", "(1, 2, 3, 4)", "[01, 2, 3, 4]", "[+1, 2, 3, 4]", "[.5, 2, 3, 4]", "[1 2 3 4]",
        '{"x1": 1}', "null", "4", "[0x1, 2, 3, 4]", "[" * 100_000, "[" * 500 + "]" * 500,
        "[1_0, 2, 3, 4]", "['1', 2, 3, 4]", "__import__('os')",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_not_boxes(text):
    action = read_box(text, *SPANS)
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.BAD_ARGUMENT
    assert (action.block, action.argument) == SPANS


@pytest.mark.parametrize(
    "text",
    [
        "9" * 1_000_000,
        "[" * 1_000_000,
        "[1," * 300_000,
        "[1, 2, 3, " + "9" * 1_000_000 + "]",
        "-" * 1_000_000,
    ],
)
def test_large_arguments_are_refused(text):
    """In linear time: a pattern that goes back over these takes hours."""
    assert isinstance(read_box(text, *SPANS), Invalid)


@given(st.lists(st.floats(0, 1e300) | st.integers(0, 10**12), min_size=4, max_size=4))
def test_what_json_writes_is_read(numbers):
    assert box_of(json.dumps(numbers)) == (tuple(map(float, numbers)),)


@given(st.text(max_size=60))
def test_never_raises(text):
    assert isinstance(read_box(text, *SPANS), Crop | Invalid)
