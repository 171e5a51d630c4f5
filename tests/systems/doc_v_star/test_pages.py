"""Lists of page numbers, and the box that pages are shown in."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from docagent_rl.documents.display import DisplayError
from docagent_rl.systems.doc_v_star.page_box import PageBox
from docagent_rl.systems.doc_v_star.thought import read_page_list

BOX, LITERAL = PageBox(), PageBox(landscape=True)
ENLARGED = PageBox(long_side=300, short_side=200, encoder_min_pixels=200_704)


@pytest.mark.parametrize(
    ("text", "pages", "strays"),
    [
        ("[3, 7]", (3, 7), 0),
        (" [3,7,] \n", (3, 7), 0),
        ("[7, 3, 7]", (7, 3), 0),
        ("", (), 0),
        ("-3", (-3,), 0),
        ("[3, x]", (3,), 1),
        ("[3, 7", (7,), 1),
        ("-", (), 1),
        ("٣", (), 1),
        ("NaN, inf", (), 2),
        ("9" * 12, (10**12 - 1,), 0),
        ("9" * 13, (), 1),
        ("[[3]]", (), 1),
        # a reader that is not linear in the length would take minutes
        ("1," * 100_000, (1,), 0),
        ("[" * 200_000, (), 1),
    ],
    ids=lambda value: str(value)[:12],
)
def test_lists(text, pages, strays):
    assert read_page_list(text) == (pages, strays)


@given(st.lists(st.integers(-99, 9999)), st.sampled_from([", ", ",", " ", "\n"]), st.booleans())
def test_what_was_written_is_read(pages, separator, brackets):
    body = separator.join(map(str, pages))
    assert read_page_list(f"[{body}]" if brackets else body) == (tuple(dict.fromkeys(pages)), 0)


@pytest.mark.parametrize(
    ("box", "size", "shown", "tokens"),
    [
        (BOX, (1654, 2339), (724, 1024), 962),
        (BOX, (1920, 1080), (1024, 576), 777),
        (BOX, (1600, 1200), (1024, 768), 999),
        (BOX, (640, 480), (640, 480), 391),
        # the paper read literally
        (LITERAL, (1654, 2339), (543, 768), 513),
        (LITERAL, (1920, 1080), (1024, 576), 777),
    ],
)
def test_the_worked_examples(box, size, shown, tokens):
    assert box.shown(size) == shown
    assert box.tokens(shown) == tokens


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_it_only_shrinks_and_turns_with_the_page(width, height):
    assume(max(width, height) <= 100 * min(width, height))
    turned, literal = BOX.shown((width, height)), LITERAL.shown((width, height))
    assert turned == BOX.shown((height, width))[::-1]
    for shown, wide, high in ((turned, max(turned), min(turned)), (literal, *literal)):
        assert (shown[0] <= width, shown[1] <= height) == (True, True)
        assert (wide <= 1024, high <= 768) == (True, True)
        assert shown == (width, height) or max(width, height) > 768


@given(st.integers(1, 3000), st.floats(0.5, 2))
def test_max_tokens_is_an_upper_bound(width, ratio):
    size = width, max(1, round(width * ratio))
    assume(max(size) <= 2 * min(size))
    for box in (BOX, PageBox(long_side=300, short_side=200), ENLARGED):
        assert box.tokens(box.shown(size)) <= box.max_tokens()


@pytest.mark.parametrize(
    ("box", "side_ratio", "most"),
    [
        (BOX, 2, BOX.tokens((1024, 768))),
        (BOX, 2, 999),
        # the processor enlarges them to 256 tokens; 16 more for each of 2.12, 2.5 and 2, and one
        (ENLARGED, 2, 290),
        (ENLARGED, 4, 297),
        (ENLARGED, 1, 289),
    ],
)
def test_max_tokens(box, side_ratio, most):
    assert box.max_tokens(side_ratio) == most


@pytest.mark.parametrize(
    ("most", "size", "kept"),
    [
        (12_845_056, (1536, 1680), True),
        (12_845_056, (20, 20), True),
        (2_000_000, (1536, 1680), False),
        (1540 * 1680, (1536, 1680), True),
    ],
)
def test_what_the_processor_leaves_alone(most, size, kept):
    assert PageBox(encoder_max_pixels=most).keeps(size) is kept


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (9000, 20)])
def test_sizes_that_cannot_be_shown(size):
    with pytest.raises(DisplayError):
        BOX.shown(size)
