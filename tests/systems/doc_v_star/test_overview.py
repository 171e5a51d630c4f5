from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.documents import PageRef
from docagent_rl.envs.delivery import render
from docagent_rl.envs.images import Resample
from docagent_rl.systems.doc_v_star.overview import (
    Grid,
    OverviewStyle,
    choose_style,
    grid_shape,
    overview,
    thumbnail_size,
)
from docagent_rl.systems.doc_v_star.page_box import PageBox

STYLE = OverviewStyle()
TOKENS = PageBox().tokens


@dataclass
class FakePage:
    """All that a sheet needs of a page."""

    ref: PageRef
    size: tuple[int, int] = (1654, 2339)
    image_hash: str = "0" * 64


def pages(count, first=1):
    return [FakePage(PageRef("d", number)) for number in range(first, first + count)]


def sheets(count, **settings):
    return list(overview(pages(count), OverviewStyle(**settings)))


@pytest.mark.parametrize(
    ("num_pages", "shape"),
    [
        (1, (1, 1)), (2, (2, 1)), (3, (2, 2)), (5, (3, 2)), (7, (3, 3)), (11, (4, 3)), (14, (4, 4)),
        (20, (5, 4)), (28, (6, 5)), (31, (6, 6)), (36, (6, 6)),
    ],
)  # fmt: skip
def test_the_table_of_shapes(num_pages, shape):
    assert grid_shape(num_pages) == shape


@given(st.integers(1, 10**6))
def test_shapes_hold_their_pages_and_no_empty_row(num_pages):
    rows, columns = grid_shape(num_pages)
    assert rows * columns >= num_pages > (rows - 1) * columns
    assert rows == math.isqrt(num_pages) + (math.isqrt(num_pages) ** 2 < num_pages)


def test_no_pages_no_shape():
    with pytest.raises(ValueError):
        grid_shape(0)


def test_the_worked_example():
    first, second, third = sheets(83)
    assert [sheet.image.size for sheet in (first, second, third)] == [(1536, 1680), (1536, 1680), (768, 1120)]
    assert [TOKENS(sheet.image.size) for sheet in (first, second, third)] == [3300, 3300, 1080]
    assert [(sheet.pages[0], sheet.pages[-1]) for sheet in (first, second, third)] == [
        (1, 36),
        (37, 72),
        (73, 83),
    ]
    grid = STYLE.grid(36)
    assert grid == Grid(6, 6, 256, 24)
    index = second.pages.index(61)
    assert grid.place(index) == (4, 0)
    assert grid.origin(index) == (0, 1120)
    assert len(third.image.tiles) == len(third.image.fills) == len(third.image.labels) == 11


@pytest.mark.parametrize(("count", "number", "tokens"), [(20, 1, 1850), (100, 3, 9360), (468, 13, 42_900)])
def test_overviews_and_their_tokens(count, number, tokens):
    found = sheets(count)
    assert len(found) == STYLE.sheets(count) == number
    assert sum(TOKENS(sheet.image.size) for sheet in found) == tokens
    if count == 20:
        assert found[0].image.size == (1024, 1400)


def test_without_headers():
    assert sum(TOKENS(sheet.image.size) for sheet in sheets(100, header=0)) == 8580
    assert sheets(3, header=0)[0].image.labels == ()


@pytest.mark.parametrize(
    ("page", "thumbnail", "at"),
    [
        ((1654, 2339), (181, 256), (37, 24)),
        ((1920, 1080), (256, 144), (0, 80)),
        ((100, 100), (256, 256), (0, 24)),
    ],
)
def test_thumbnails(page, thumbnail, at):
    assert thumbnail_size(page, 256) == thumbnail
    (sheet,) = overview([FakePage(PageRef("d", 1), page)], STYLE)
    (tile,) = sheet.image.tiles
    assert (tile.image.size, tile.at) == (thumbnail, at)
    assert tile.image.raster == (0, 0, *page)
    assert tile.image.resample is Resample.LANCZOS
    assert thumbnail_size((9000, 10), 256) == (256, 1)


def choose(num_pages, max_sheets=13):
    return choose_style(STYLE, num_pages, max_sheets=max_sheets, smaller_cells=(192, 128))


@pytest.mark.parametrize(
    ("num_pages", "cell", "per_sheet", "number"),
    [(468, 256, 36, 13), (469, 192, 64, 8), (832, 192, 64, 13), (833, 128, 144, 6), (1873, 128, 144, 14)],
)
def test_long_documents_have_smaller_cells_and_all_their_pages(num_pages, cell, per_sheet, number):
    style = choose(num_pages)
    assert (style.cell, style.pages_per_sheet, style.sheets(num_pages)) == (cell, per_sheet, number)
    found = list(overview(pages(num_pages), style))
    assert [page for sheet in found for page in sheet.pages] == list(range(1, num_pages + 1))
    assert all(sheet.image.size[0] <= 1536 for sheet in found)
    assert style.font == STYLE.font


@given(st.integers(1, 400), st.integers(1, 500))
def test_cells_lie_side_by_side(count, first):
    drawn = []
    for sheet in overview(pages(count, first), choose(count, max_sheets=4)):
        width, height = sheet.image.canvas
        boxes = [label.box for label in sheet.image.labels]
        assert len({box[:2] for box in boxes}) == len(boxes)
        for label, fill, tile in zip(sheet.image.labels, sheet.image.fills, sheet.image.tiles, strict=True):
            left, top, right, bottom = fill.box
            assert label.box == (left, top - 24, right, top)
            assert right <= width
            assert bottom <= height
            assert left <= tile.at[0]
            assert tile.at[0] + tile.image.size[0] <= right
            assert top <= tile.at[1]
            assert tile.at[1] + tile.image.size[1] <= bottom
            assert label.text == str(tile.image.page.page)
            drawn.append(tile.image.page.page)
    assert drawn == list(range(first, first + count))


def test_a_sheet_of_real_pages(store):
    document = store.document("K")
    (sheet,) = overview([document.page(number) for number in range(1, 6)], STYLE)
    json.dumps(sheet.image.to_dict())
    picture = render(sheet.image, store)
    assert picture.size == sheet.image.size == (512, 840)
    pixels = np.asarray(picture)
    for index in range(5):
        left, top = STYLE.grid(5).origin(index)
        band, square = (
            pixels[top : top + 24, left : left + 256],
            pixels[top + 24 : top + 280, left : left + 256],
        )
        # black digits on white in the middle of the band, light grey above and below a landscape page
        assert band[:, 100:156].min() < 60
        assert band[:, :80].min() == 255
        assert (square[:30] == 224).all()
        assert (square[-30:] == 224).all()
        page = document.page(index + 1).image().resize((256, 181), Image.Resampling.LANCZOS)
        assert np.array_equal(square[37 : 37 + 181], np.asarray(page))
    # the unused cell is white
    assert (pixels[560:, 256:] == 255).all()
    bands = [pixels[y : y + 24, x : x + 256].tobytes() for x, y in map(STYLE.grid(5).origin, range(5))]
    assert len(set(bands)) == 5


def test_equal_sheets_have_equal_keys(store):
    document = store.document("K")
    book = [document.page(number) for number in range(1, 6)]
    first, again = (next(overview(book, STYLE)).image.key for _ in range(2))
    assert first == again
    assert next(overview(book, OverviewStyle(header=28))).image.key != first
    assert next(overview(book[:4], STYLE)).image.key != first
