import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from docagent_rl.actions.coordinates import (
    CropError,
    Frame,
    Rounding,
    box_to_raw,
    box_to_region,
    crop_raster,
    iou,
    on_view,
    raster_to_region,
    raw_to_raster,
)
from docagent_rl.documents.settings import DisplayError

PAGE = (1733, 1226)
WHOLE = (0, 0, *PAGE)
DISPLAYED = (753, 532)


@pytest.mark.parametrize(
    "box",
    [
        (10, 10, 10, 20),
        (10, 10, 20, 10),
        (20, 10, 10, 20),
        (10, 20, 20, 10),
        (800, 10, 900, 20),
        (0, 600, 9, 1e308),
    ],
)
@pytest.mark.parametrize("rounding", Rounding)
def test_boxes_that_cover_nothing(box, rounding):
    with pytest.raises(CropError):
        crop_raster(box, view=WHOLE, page=PAGE, frame=DISPLAYED, rounding=rounding)


def test_less_than_a_pixel():
    tiny = {"view": (0, 0, 100, 100), "page": (100, 100), "frame": (1000, 1000)}
    for box in ((11, 11, 19, 19), (11, 11, 19, 90), (11, 11, 90, 19)):
        with pytest.raises(CropError):
            crop_raster(box, **tiny, rounding=Rounding.TRUNCATE)
    # one pixel is enough, and where the box begins on the page does not matter
    assert crop_raster((11, 11, 21, 21), **tiny, rounding=Rounding.TRUNCATE) == (1, 1, 2, 2)
    assert crop_raster((11, 11, 19, 19), **tiny, rounding=Rounding.OUTWARD) == (1, 1, 2, 2)


def test_side_ratio():
    with pytest.raises(DisplayError):
        crop_raster(
            (0, 100, 753, 101), view=WHOLE, page=PAGE, frame=DISPLAYED, rounding=Rounding.TRUNCATE
        )
    # 200 to 1 is allowed, wherever it lies
    page = {"view": (0, 0, 1000, 1000), "page": (1000, 1000), "frame": (1000, 1000)}
    assert crop_raster((600, 7, 1000, 9), **page, rounding=Rounding.TRUNCATE) == (600, 7, 1000, 9)


def test_enormous_numbers_are_clamped():
    box = (0, 0, 1e308, 1e308)  # infinite on the page
    raster = crop_raster(box, view=WHOLE, page=PAGE, frame=DISPLAYED, rounding=Rounding.OUTWARD)
    assert raster == WHOLE


@st.composite
def views(draw):
    page = draw(st.tuples(st.integers(40, 4000), st.integers(40, 4000)))
    left, top = draw(st.integers(0, page[0] - 20)), draw(st.integers(0, page[1] - 20))
    right, bottom = draw(st.integers(left + 10, page[0])), draw(st.integers(top + 10, page[1]))
    return page, (left, top, right, bottom)


frames = st.tuples(st.integers(28, 1500), st.integers(28, 1500))


@given(views(), frames, st.sampled_from(Rounding))
def test_the_whole_view_maps_to_itself(view, frame, rounding):
    """Floating-point errors cause no off-by-one in any frame."""
    page, raster = view
    assume(
        max(raster[2] - raster[0], raster[3] - raster[1])
        < 200 * min(raster[2] - raster[0], raster[3] - raster[1])
    )
    assert (
        crop_raster((0, 0, *frame), view=raster, page=page, frame=frame, rounding=rounding)
        == raster
    )


@given(
    views(), frames, st.tuples(*[st.floats(0, 1)] * 4), st.sampled_from(Rounding), st.floats(0, 50)
)
def test_crops_lie_on_the_page_and_cover_the_box(view, frame, corners, rounding, pad):
    page, raster = view
    x1, x2 = sorted((corners[0] * frame[0], corners[2] * frame[0]))
    y1, y2 = sorted((corners[1] * frame[1], corners[3] * frame[1]))
    try:
        crop = crop_raster(
            (x1, y1, x2, y2), view=raster, page=page, frame=frame, rounding=rounding, pad=pad
        )
    except (CropError, DisplayError):
        return
    assert 0 <= crop[0] < crop[2] <= page[0]
    assert 0 <= crop[1] < crop[3] <= page[1]
    if pad == 0:
        # inside the view, as a crop of a crop has to be
        assert crop[0] >= raster[0]
        assert crop[1] >= raster[1]
        assert crop[2] <= raster[2]
        assert crop[3] <= raster[3]
    if rounding is Rounding.OUTWARD and pad == 0:
        raw = box_to_raw((x1, y1, x2, y2), raster, frame)
        assert crop[0] <= raw[0] + 1e-9
        assert crop[2] >= raw[2] - 1e-9


@given(views(), frames, st.tuples(*[st.floats(0, 2000)] * 4))
def test_both_ways_to_the_page_agree(view, frame, box):
    page, raster = view
    raw = box_to_raw(box, raster, frame)
    region = box_to_region(box, raster_to_region(raster, page), frame)
    sides = (page[0], page[1], page[0], page[1])
    assert [r * side for r, side in zip(region, sides, strict=True)] == pytest.approx(raw, abs=1e-6)


def test_frames_and_padding():
    sizes = [
        frame.size((4, 3), (8, 6)) for frame in (Frame.DISPLAYED, Frame.ENCODER, Frame.NORM1000)
    ]
    assert sizes == [(4, 3), (8, 6), (1000, 1000)]
    raw = box_to_raw((10, 20, 30, 40), (5, 7, 105, 207), (50, 50), pad=2)
    assert raw == pytest.approx((5 + 16, 7 + 72, 5 + 64, 7 + 168))


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((0, 0, 4, 2), (1, 1, 3, 5), 1 / 7),
        ((0, 0, 0.5, 0.5), (0, 0, 0.5, 0.5), 1.0),
        ((0, 0, 1, 1), (1, 0, 2, 1), 0.0),
        ((0, 0, 1, 1), (2, 2, 3, 3), 0.0),  # apart in both directions
        ((0, 0, 1, 1), (0.5, 0.5, 0.5, 0.5), 0.0),
        ((1, 1, 0, 0), (1, 1, 0, 0), 0.0),
    ],
)
def test_intersection_over_union(a, b, wanted):
    assert iou(a, b) == iou(b, a) == pytest.approx(wanted)


def test_raw_boxes_are_clamped_to_any_bounds():
    bounds = (10, 20, 30, 40)
    assert raw_to_raster((-9, 25.5, 12.5, 1e308), bounds, Rounding.OUTWARD) == (10, 25, 13, 40)
    assert raw_to_raster((-9, 25.5, 12.5, 1e308), bounds, Rounding.TRUNCATE) == (10, 25, 12, 40)
    for box in ((0, 20, 10, 40), (30, 20, 99, 40), (12, 25, 11, 30)):
        with pytest.raises(CropError):
            raw_to_raster(box, bounds, Rounding.OUTWARD)
    with pytest.raises(CropError):
        raw_to_raster((12.1, 25, 12.9, 30), bounds, Rounding.TRUNCATE)


ALL = (0.0, 0.0, 1.0, 1.0)
EDGE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("box", "region", "wanted"),
    [
        ((0.1, 0.2, 0.5, 0.6), ALL, [10, 40, 50, 120]),
        # the lower half of the page: its 0.6 to 0.8 are 0.2 to 0.6 of the view
        ((0.0, 0.6, 1.0, 0.8), (0.0, 0.5, 1.0, 1.0), [0, 40, 100, 120]),
        # outward
        ((0.101, 0.2, 0.499, 0.6), ALL, [10, 40, 50, 120]),
        # beyond the view, and on its edge
        ((0.0, 0.0, 1.0, 1.0), (0.25, 0.25, 0.75, 0.75), [0, 0, 100, 200]),
        ((1.0, 1.0, 1.0, 1.0), ALL, [99, 199, 100, 200]),
        ((0.4, 0.5, 0.6, 0.6), (0.25, 0.2, 0.75, 0.7), [30, 120, 70, 160]),
    ],
)
def test_a_box_of_the_page_is_one_of_the_view(box, region, wanted):
    assert on_view(box, region, (100, 200)) == wanted


@given(EDGE, EDGE, EDGE, EDGE)
def test_a_box_is_never_empty_and_stays_inside(x1, y1, x2, y2):
    left, top, right, bottom = on_view(
        (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), ALL, (90, 70)
    )
    assert 0 <= left < right <= 90
    assert 0 <= top < bottom <= 70
