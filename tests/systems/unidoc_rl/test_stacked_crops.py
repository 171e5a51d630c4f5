import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.actions.coordinates import CropError, Frame, Rounding
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.documents.settings import DisplayError
from docagent_rl.envs.images import render
from docagent_rl.envs.views import CoordsConfig, page_view
from docagent_rl.systems.unidoc_rl.stacked_crops import StackedCropsView, region_of, stacked


class PortraitPage:
    """Page T9 of the specification's worked example; views need no more of a page than this."""

    ref = PageRef("T", 9)
    image_hash = "0" * 64
    size = (1240, 1754)


PLAIN = DisplayRule(snap=False)
RELEASED = CoordsConfig(frame=Frame.DISPLAYED, rounding=Rounding.TRUNCATE)
BOXES = [(66, 118, 274, 331), (352, 400, 498, 480)]
RASTERS = [(153, 274, 638, 771), (820, 931, 1160, 1118)]
PAGE = page_view(PortraitPage(), PLAIN, 1)
WHOLE, LINE, HUGE = (0, 0, 532, 753), (0, 100, 532, 101), (-1e308, -5, 1e308, 9999)


def stack(view, boxes, turn, rule=PLAIN, coords=RELEASED, **more):
    return stacked(view, boxes, coords, rule, turn=turn, **more)


def rasters(view):
    return [tile.image.raster for tile in view.image.tiles]


def test_the_worked_example():
    assert (PAGE.image.size, PAGE.encoder_size, PAGE.tokens) == ((532, 753), (532, 756), 513)
    assert page_view(PortraitPage(), DisplayRule(), 1).image.size == (532, 728)
    regions = [
        tuple(1000 * edge for edge in region_of(PAGE, box, Frame.DISPLAYED)) for box in BOXES
    ]
    assert regions[0] == pytest.approx((124.06, 156.71, 515.04, 439.58), abs=0.005)
    assert regions[1] == pytest.approx((661.65, 531.21, 936.09, 637.45), abs=0.005)

    crop = stack(PAGE, BOXES, 2)
    assert rasters(crop) == RASTERS
    assert [(tile.image.size, tile.at) for tile in crop.image.tiles] == [
        ((485, 497), (0, 0)),
        ((340, 187), (0, 497)),
    ]
    assert crop.image.canvas == crop.image.size == (485, 684)
    assert (crop.image.background, crop.image.pages) == ((0, 0, 0), (PageRef("T", 9),))
    assert (crop.encoder_size, crop.tokens, crop.turn) == ((476, 672), 408, 2)

    again = stack(crop, [(60, 500, 300, 720)], 3)
    assert rasters(again) == [(880, 934, 1120, 1118)]
    assert again.page is PAGE
    across = stack(crop, [(100, 490, 200, 500)], 3)
    assert rasters(across) == [(253, 764, 353, 771), (920, 931, 1020, 934)]

    described = crop.shown().to_dict()
    assert (described["page"], described["rasters"][1]) == ("T#9", [820, 931, 1160, 1118])
    assert described["regions"][0] == pytest.approx(
        [153 / 1240, 274 / 1754, 638 / 1240, 771 / 1754]
    )


@pytest.mark.parametrize(
    ("changes", "boxes", "expected"),
    [
        # order and repetition are the policy's
        ({}, [BOXES[1], BOXES[0], BOXES[1]], [RASTERS[1], RASTERS[0], RASTERS[1]]),
        # boxes are clamped
        ({}, [HUGE], [(0, 0, 1240, 1754)]),
        ({"rounding": Rounding.OUTWARD}, BOXES, [(153, 274, 639, 772), (820, 931, 1161, 1119)]),
        ({"frame": Frame.NORM1000}, [(0, 500, 1000, 1000)], [(0, 877, 1240, 1754)]),
        ({"frame": Frame.ENCODER}, [(0, 378, 532, 756)], [(0, 877, 1240, 1754)]),
        ({"pad": 28}, BOXES[:1], [(88, 209, 703, 836)]),
    ],
)
def test_rasters(changes, boxes, expected):
    pad = changes.get("pad", 0.0)
    coords = RELEASED.model_copy(update={k: v for k, v in changes.items() if k != "pad"})
    crop = stack(PAGE, boxes, 2, coords=coords, pad=pad)
    assert rasters(crop) == expected
    widths, heights = zip(
        *[(right - left, bottom - top) for left, top, right, bottom in expected], strict=True
    )
    assert crop.image.canvas == (max(widths), sum(heights))


@pytest.mark.parametrize(
    "box", [(600, 10, 700, 20), (10, 10, 10.1, 10.1), (1e307, 1e307, 1e308, 1e308)]
)
def test_boxes_that_cover_nothing(box):
    with pytest.raises(CropError, match="box 1"):
        stack(PAGE, [box, *BOXES], 2)


def test_regions_are_clamped_and_not_padded():
    assert region_of(PAGE, HUGE, Frame.DISPLAYED) == (0, 0, 1, 1)


def test_only_the_stacked_image_needs_ordinary_sides():
    with pytest.raises(DisplayError, match="200"):
        stack(PAGE, [LINE], 2)
    assert len(stack(PAGE, [LINE, BOXES[0]], 2).image.tiles) == 2


def test_repeated_magnification_cannot_grow_without_bound():
    """Eight whole-image boxes a turn would multiply the pieces by eight each time."""
    view = stack(PAGE, [(0, 100, 532, 110)] * 8, 2)
    view = stack(view, [(0, 0, *view.image.size)] * 8, 3)
    assert len(view.image.tiles) == 64
    with pytest.raises(CropError, match="512"):
        stack(view, [(0, 0, *view.image.size)] * 8, 4)
    with pytest.raises(CropError, match="too large"):
        stack(PAGE, [WHOLE] * 24, 2)


def test_the_pixels_are_those_of_the_page(store):
    page = store.page(PageRef("K", 2))
    boxes = [(20, 20, 320, 220), (340, 100, 620, 250)]
    rule = DisplayRule(snap=False, max_pixels=4_000_000)
    crop = stack(page_view(page, PLAIN, 1), boxes, 2, rule)
    raw, shown = np.asarray(page.image()), np.asarray(render(crop.image, store))
    assert shown.shape[1::-1] == crop.image.size == crop.image.canvas
    for tile in crop.image.tiles:
        (width, height), (left, top, right, bottom) = tile.image.size, tile.image.raster
        assert (
            shown[tile.at[1] : tile.at[1] + height, :width] == raw[top:bottom, left:right]
        ).all()
    first, second = crop.image.tiles
    assert second.image.size[0] < first.image.size[0]
    assert not shown[second.at[1] :, second.image.size[0] :].any()


class SmallPage(PortraitPage):
    size = (12, 9)


# images are shown as they are: a box counts pixels of the canvas
AS_IT_IS = DisplayRule(
    min_pixels=1,
    max_pixels=100_000,
    snap=False,
    grid=ImageGrid(unit=1, min_pixels=1, max_pixels=200_000),
)


def painted(view):
    """Return the canvas, where each pixel is the page pixel that it shows, or `None`."""
    if not isinstance(view, StackedCropsView):
        return [[(x, y) for x in range(12)] for y in range(9)]
    width, height = view.image.canvas
    canvas = [[None] * width for _ in range(height)]
    for tile in view.image.tiles:
        left, top, right, bottom = tile.image.raster
        for y in range(top, bottom):
            for x in range(left, right):
                canvas[tile.at[1] + y - top][x - left] = (x, y)
    return canvas


@st.composite
def box_of(draw, size):
    x1, y1 = draw(st.integers(0, size[0] - 1)), draw(st.integers(0, size[1] - 1))
    return x1, y1, draw(st.integers(x1 + 1, size[0])), draw(st.integers(y1 + 1, size[1]))


@settings(max_examples=30)
@given(st.data(), st.sampled_from(Rounding))
def test_boxes_show_what_was_under_them(data, rounding):
    """After three magnifications every box still yields exactly the pixels that it encloses."""
    coords = CoordsConfig(frame=Frame.DISPLAYED, rounding=rounding)
    view = page_view(SmallPage(), AS_IT_IS, 1)
    for turn in range(2, 5):
        canvas = painted(view)
        boxes = data.draw(st.lists(box_of(view.image.size), min_size=1, max_size=3))
        under = [
            [canvas[y][x] for y in range(y1, y2) for x in range(x1, x2)] for x1, y1, x2, y2 in boxes
        ]
        if not all(any(pixels) for pixels in under):
            with pytest.raises(CropError):
                stack(view, boxes, turn, AS_IT_IS, coords)
            return
        view = stack(view, boxes, turn, AS_IT_IS, coords)
        found = [pixel for row in painted(view) for pixel in row if pixel]
        assert found == [pixel for pixels in under for pixel in pixels if pixel]
