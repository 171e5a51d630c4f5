"""Lists of page numbers, and the box that pages are shown in."""

from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.documents.drawn import Resample, thumbnail_size
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.systems.doc_v_star.actions import read_page_list
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview import (
    OverviewStyle,
    PageBox,
    grid_shape,
    overview,
)

STYLE = OverviewStyle()
PAPER = DocVStarConfig()


@dataclass
class FakePage:
    """The part of a page that a sheet needs."""

    ref: PageRef
    size: tuple[int, int] = (1654, 2339)
    image_hash: str = "0" * 64


def pages(count, first=1):
    return [FakePage(PageRef("d", number)) for number in range(first, first + count)]


def tokens(sheets):
    return [PageBox().tokens(sheet.size) for sheet in sheets]


@pytest.mark.parametrize(
    ("num_pages", "shape"),
    [
        (1, (1, 1)), (2, (2, 1)), (3, (2, 2)), (5, (3, 2)), (7, (3, 3)), (11, (4, 3)), (14, (4, 4)),
        (20, (5, 4)), (28, (6, 5)), (31, (6, 6)), (36, (6, 6)), (10**16, (10**8, 10**8)),
    ],
)  # fmt: skip
def test_the_table_of_shapes(num_pages, shape):
    assert grid_shape(num_pages) == shape
    with pytest.raises(ValueError, match="0"):
        grid_shape(0)


def test_the_worked_example():
    sheets = list(overview(pages(83), STYLE))
    assert [sheet.size for sheet in sheets] == [(1536, 1680), (1536, 1680), (768, 1120)]
    assert tokens(sheets) == [3300, 3300, 1080]
    assert [(sheet.pages[0].page, sheet.pages[-1].page) for sheet in sheets] == [
        (1, 36),
        (37, 72),
        (73, 83),
    ]
    index = sheets[1].pages.index(PageRef("d", 61))
    assert STYLE.grid(36).origin(index) == (0, 1120)
    last = sheets[2]
    assert len(last.tiles) == len(last.fills) == len(last.labels) == 11


@pytest.mark.parametrize(
    ("page", "thumbnail", "at"),
    [
        ((1654, 2339), (181, 256), (37, 24)),
        ((1920, 1080), (256, 144), (0, 80)),
        ((9000, 10), (256, 1), (0, 151)),
    ],
)
def test_thumbnails(page, thumbnail, at):
    assert thumbnail_size(page, 256) == thumbnail
    (sheet,) = overview([FakePage(PageRef("d", 1), page)], STYLE)
    (tile,) = sheet.tiles
    assert (tile.image.size, tile.at) == (thumbnail, at)
    assert (tile.image.raster, tile.image.resample) == ((0, 0, *page), Resample.LANCZOS)


@settings(max_examples=20)
@given(st.integers(1, 400), st.integers(1, 500), st.sampled_from([256, 192, 88]))
def test_cells_lie_side_by_side(count, first, cell):
    drawn = []
    for sheet in overview(pages(count, first), STYLE.smaller(cell)):
        width, height = sheet.canvas
        boxes = [label.box for label in sheet.labels]
        assert len({box[:2] for box in boxes}) == len(boxes)
        for label, fill, tile in zip(sheet.labels, sheet.fills, sheet.tiles, strict=True):
            left, top, right, bottom = fill.box
            assert label.box == (left, top - 24, right, top)
            (x, y), (wide, high) = tile.at, tile.image.size
            assert left <= x < x + wide <= right <= width
            assert top <= y < y + high <= bottom <= height
            assert label.text == str(tile.image.page.page)
            drawn.append(tile.image.page.page)
    assert drawn == list(range(first, first + count))


def best(num_pages, limit):
    """Return the first plan of a document with at most `limit` visual tokens."""
    return next(p for p in PAPER.overview.plans(num_pages) if PAPER.plan_tokens(p) <= limit)


def rank(plan):
    """Rank plans by the fewest pages left out, then by the largest thumbnails."""
    return plan.stride, -plan.style.cell


@settings(max_examples=20)
@given(st.integers(1, 468), st.integers(12, 9000))
def test_the_best_plan_fits_nothing_larger_does_and_it_covers_the_document_evenly(num_pages, limit):
    plan = best(num_pages, limit)
    assert PAPER.plan_tokens(plan) <= limit
    for other in PAPER.overview.plans(num_pages):
        if other.stride > plan.stride:
            break
        assert rank(other) >= rank(plan) or PAPER.plan_tokens(other) > limit
    pages = plan.choose(range(1, num_pages + 1))
    assert list(pages) == list(range(1, num_pages + 1, plan.stride))
    assert len(pages) == plan.shown


def test_the_images_of_a_plan():
    plan = best(83, 9000)
    assert (plan.sizes, plan.sheets) == ([(1536, 1680), (1536, 1680), (768, 1120)], 3)
    cells = {"cell_px": 200, "fit_cells_px": [256, 200, 128, 64]}
    offered = DocVStarConfig(overview=cells).overview.plans(3)
    # cells that are not smaller are none to fall back on
    assert [(p.style.cell, p.stride) for p in offered] == [
        (c, s) for s in (1, 2, 3) for c in (200, 128, 64)
    ]


BOX, LITERAL = PageBox(), PageBox(landscape=True)
ENLARGED = PageBox(long_side=300, short_side=200, grid=ImageGrid(min_pixels=200_704))


@pytest.mark.parametrize(
    ("text", "pages", "strays"),
    [
        ("[3, 7]", (3, 7), 0),
        ("[7, 3, 7]", (7, 3), 0),
        ("", (), 0),
        ("-3", (-3,), 0),
        ("[3, x]", (3,), 1),
        ("-", (), 1),
        ("NaN, inf", (), 2),
        ("9" * 12, (10**12 - 1,), 0),
        ("9" * 13, (), 1),
        # a reader that is not linear in the length would take minutes
        ("1," * 100_000, (1,), 0),
        ("[" * 200_000, (), 1),
    ],
    ids=lambda value: str(value)[:12],
)
def test_lists(text, pages, strays):
    assert read_page_list(text) == (pages, strays)


@pytest.mark.parametrize(
    ("box", "size", "shown", "tokens"),
    [
        (BOX, (1654, 2339), (724, 1024), 962),
        (BOX, (1920, 1080), (1024, 576), 777),
        (BOX, (1600, 1200), (1024, 768), 999),
        # the paper read literally
        (LITERAL, (1654, 2339), (543, 768), 513),
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
