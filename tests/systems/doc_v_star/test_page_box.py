from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from docagent_rl.documents.display import DisplayError
from docagent_rl.systems.doc_v_star.page_box import PageBox

BOX = PageBox()


@pytest.mark.parametrize(
    ("size", "shown", "tokens"),
    [
        ((1654, 2339), (724, 1024), 962),
        ((1920, 1080), (1024, 576), 777),
        ((1600, 1200), (1024, 768), 999),
        ((640, 480), (640, 480), 391),
    ],
)
def test_the_worked_examples(size, shown, tokens):
    assert BOX.shown(size) == shown
    assert BOX.tokens(shown) == tokens


def test_the_literal_reading_of_the_paper():
    literal = PageBox(landscape=True)
    assert literal.shown((1654, 2339)) == (543, 768)
    assert literal.tokens((543, 768)) == 513
    assert literal.shown((1920, 1080)) == BOX.shown((1920, 1080))


sides = st.integers(1, 5000)


@given(sides, sides, st.booleans())
def test_it_only_shrinks_and_fits(width, height, landscape):
    box = PageBox(landscape=landscape)
    try:
        shown = box.shown((width, height))
    except DisplayError:
        assert max(width, height) > 100 * min(width, height)
        return
    assert shown[0] <= width
    assert shown[1] <= height
    wide, high = shown if landscape else (max(shown), min(shown))
    assert wide <= 1024
    assert high <= 768
    if width <= 768 and height <= 768:
        assert shown == (width, height)


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_turning_a_page_turns_what_is_shown(width, height):
    if max(width, height) <= 100 * min(width, height):
        assert BOX.shown((width, height)) == BOX.shown((height, width))[::-1]


@given(st.integers(1, 3000), st.floats(0.5, 2))
def test_max_tokens_is_an_upper_bound(width, ratio):
    size = width, max(1, round(width * ratio))
    if max(size) <= 2 * min(size):
        for box in (BOX, PageBox(long_side=300, short_side=200), PageBox(encoder_min_pixels=200_704)):
            assert box.tokens(box.shown(size)) <= box.max_tokens()


def test_max_tokens_is_reached():
    assert BOX.max_tokens() == BOX.tokens((1024, 768)) == 999


def test_what_the_processor_leaves_alone():
    assert BOX.keeps((1536, 1680))
    assert BOX.keeps((20, 20))
    assert not PageBox(encoder_max_pixels=2_000_000).keeps((1536, 1680))
    assert PageBox(encoder_max_pixels=1540 * 1680).keeps((1536, 1680))


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (9000, 20)])
def test_sizes_that_cannot_be_shown(size):
    with pytest.raises(DisplayError):
        BOX.shown(size)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"long_side": 500, "short_side": 600}, "short_side is above long_side"),
        ({"long_side": 27, "short_side": 27}, "narrower than one visual token"),
        ({"encoder_min_pixels": 9, "encoder_max_pixels": 8}, "encoder_min_pixels"),
        ({"long": 3}, "Extra inputs"),
    ],
)
def test_mistakes(settings, message):
    with pytest.raises(ValidationError, match=message):
        PageBox(**settings)
