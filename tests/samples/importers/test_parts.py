"""Literals, page bases and boxes by themselves."""

from __future__ import annotations

import math

import pytest

from docagent_rl.samples.importers.finishing import normalised
from docagent_rl.samples.importers.native import as_pages, as_texts, parse_literal
from docagent_rl.samples.importers.report import PageBase, find_base


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[3, 5]", [3, 5]),
        ("['Chart', 'it\\'s']", ["Chart", "it's"]),
        ('["a", null]', ["a", None]),
        ("('a', True)", ["a", True]),
        ("{'p_1': [[1, 2, 3, 4]]}", {"p_1": [[1, 2, 3, 4]]}),
        (" [] ", []),
    ],
)
def test_json_and_python_s_literals_are_read(text, value):
    assert parse_literal(text) == value


@pytest.mark.parametrize(
    "text",
    ["[3", "open('x')", "[x for x in y]", "", "NaN", "b'a'", "{1, 2}", "1j", "[" * 9999, "a" * 200_000],
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


def test_the_documented_base_stands_unless_the_other_fits_clearly_better():
    def base(cites: list[tuple[int, int | None]], expected: PageBase, *, certain: bool = False) -> int:
        return find_base(cites, expected, certain=certain).base

    assert base([(0, 3), (2, 3)], PageBase.ZERO) == 0
    assert base([(1, 3), (3, 3)], PageBase.ZERO) == 1
    assert base([(0, 3), (2, 3)], PageBase.ONE) == 0
    assert base([(0, 3), (3, 3)], PageBase.ONE) == 1
    assert base([(0, None), (2, None)], PageBase.ONE) == 1
    assert base([(0, 3), (2, 3)], PageBase.ONE, certain=True) == 1
    assert base([], PageBase.ZERO) == 0
    # as many last pages, which contradict base 0, and covers, which contradict base 1
    for last, covers, found in ((200, 3, 1), (200, 40, 1), (200, 41, 0), (5, 1, 1), (4, 1, 0), (0, 3, 0)):
        assert base([(3, 3)] * last + [(0, 3)] * covers, PageBase.ZERO) == found
        assert base([(3, 3)] * last + [(0, 3)] * covers, PageBase.ZERO, certain=True) == 0


@pytest.mark.parametrize(
    ("last", "covers", "told", "doubtful"),
    [
        (200, 3, None, True),
        (4, 1, None, True),
        (1, 4, None, False),
        (0, 0, None, False),
        (200, 3, PageBase.ONE, False),
        (3, 200, PageBase.ONE, True),
    ],
)
def test_a_base_that_citations_contradict_is_doubtful(last, covers, told, doubtful):
    cites = [(3, 3)] * last + [(0, 3)] * covers
    for certain in (False, True) if doubtful else (False,):
        found = find_base(cites, PageBase.ZERO, certain=certain, chosen=told)
        assert (*found.outside, found.doubtful) == (last, covers, doubtful)
        assert told is None or found.base is told
    # stray zeros before documents are measured
    unmeasured = [(0, None)] * 3 + [(4, None)] * 9
    assert not find_base(unmeasured, PageBase.ONE, certain=True).doubtful
    assert find_base(unmeasured, PageBase.ONE, certain=False).doubtful


def test_boxes_are_clamped_and_flat_ones_dropped_in_the_frame_of_their_page():
    assert normalised((100, 100, 500, 250), (1000, 500)) == ((0.1, 0.2, 0.5, 0.5), False)
    assert normalised((-10, 0, 500, 1000), (1000, 500)) == ((0.0, 0.0, 0.5, 1.0), True)
    assert normalised((5, 5, 5, 9), (10, 10)) == (None, False)
    assert normalised((9, 5, 5, 9), (10, 10)) == (None, False)
    assert normalised((math.nan, 0, 1, 1), (1, 1)) == (None, False)
