from dataclasses import replace

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import CropError, Frame, Rounding
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.effects import NO_EFFECT, Magnified, Nothing, NothingShown, PagesShown
from docagent_rl.envs.shown_page import WHOLE, ShownPage
from docagent_rl.envs.views import CropConfig, ShowsImages, crop_view, last_view, page_view


class LargePage:
    """The page of the specification's worked example; views need no more of a page than this."""

    ref = PageRef("K", 1)
    image_hash = "0" * 64
    size = (1733, 1226)


PLAIN = DisplayRule(snap=False)
RELEASED = {"frame": Frame.DISPLAYED, "rounding": Rounding.TRUNCATE}


def test_the_worked_example_from_page_to_crop_of_a_crop():
    page = page_view(LargePage(), PLAIN, 1)
    assert (page.tokens, page.region.box) == (513, (0, 0, 1, 1))
    assert (page.image.raster, page.image.size) == ((0, 0, 1733, 1226), (753, 532))
    assert page.encoder_size == (756, 532)
    assert (page.image.page_hash, page.shown().page) == (LargePage.image_hash, PageRef("K", 1))

    crop = crop_view(page, (318, 96, 602, 371), PLAIN, 2, **RELEASED)
    assert (crop.tokens, crop.encoder_size) == (506, (644, 616))
    assert (crop.image.raster, crop.image.size) == ((731, 221, 1385, 854), (643, 623))
    assert crop.region.box == pytest.approx((0.4218, 0.1803, 0.7992, 0.6966), abs=5e-5)

    again = crop_view(crop, (40, 210, 330, 395), PLAIN, 3, **RELEASED)
    assert again.image.raster == (771, 434, 1066, 622)
    assert again.turn == 3


def test_the_frames_of_the_worked_example():
    outward = {"rounding": Rounding.OUTWARD, "frame": Frame.ENCODER}
    box = (318, 96, 602, 371)
    plain, snapped = page_view(LargePage(), PLAIN, 1), page_view(LargePage(), DisplayRule(), 1)
    assert snapped.image.size == (728, 532)
    assert snapped.tokens == 494
    assert crop_view(plain, box, PLAIN, 2, **outward).image.raster == (728, 221, 1380, 855)
    assert crop_view(snapped, box, PLAIN, 2, **outward).image.raster == (756, 221, 1434, 855)
    assert crop_view(plain, box, PLAIN, 2, **RELEASED, pad=28).image.raster == (667, 156, 1449, 919)


def test_what_cannot_be_shown():
    page = LargePage()
    with pytest.raises(CropError):
        crop_view(page_view(page, PLAIN, 1), (9, 9, 9, 9), PLAIN, 2, **RELEASED)
    page.size = (9000, 20)
    with pytest.raises(UserError, match="K#1"):
        page_view(page, PLAIN, 1)


def test_padding_may_be_another_in_validation():
    assert [CropConfig(pad=3.0).padding(validate=each) for each in (False, True)] == [3.0, 3.0]
    assert [CropConfig(pad=3.0, pad_val=0.0).padding(validate=each) for each in (False, True)] == [
        3.0,
        0.0,
    ]
    assert [CropConfig(pad_val=28.0).padding(validate=each) for each in (False, True)] == [
        0.0,
        28.0,
    ]
    assert CropConfig(pad=0, pad_val=0).pad == 0
    for name in ("pad", "pad_val"):
        for value in (-0.1, float("inf"), float("nan")):
            with pytest.raises(ValidationError, match=name):
                CropConfig(**{name: value})


def test_the_last_view_is_a_crop_or_the_last_page():
    region = (0.1, 0.2, 0.5, 0.6)
    view = ShownPage(PageRef("K", 1), size=(100, 50), regions=(region,), encoder_size=(112, 56))
    other = replace(view, regions=(WHOLE,))
    assert last_view(Magnified(view), Frame.DISPLAYED) == ((0.1, 0.2, 0.5, 0.6), (100, 50))
    assert last_view(PagesShown((other, view)), Frame.ENCODER) == ((0.1, 0.2, 0.5, 0.6), (112, 56))
    assert last_view(PagesShown((view, other)), Frame.NORM1000) == (
        (0.0, 0.0, 1.0, 1.0),
        (1000, 1000),
    )
    for pages in ((view,), (other, other, view)):
        assert last_view(PagesShown(pages), Frame.DISPLAYED)[0] == (0.1, 0.2, 0.5, 0.6)
    text = ShownPage(PageRef("K", 1))
    for nothing in (NO_EFFECT, PagesShown(()), PagesShown((text,)), NothingShown(Nothing.FEEDBACK)):
        assert last_view(nothing, Frame.DISPLAYED) == ((0.0, 0.0, 1.0, 1.0), (1000, 1000))


def test_a_view_says_where_it_comes_from():
    crop = crop_view(page_view(LargePage(), PLAIN, 1), (318, 96, 602, 371), PLAIN, 2, **RELEASED)
    assert crop.shown().to_dict() == {
        "page": "K#1", "raster": [731, 221, 1385, 854], "region": list(crop.region.box),
        "size": [643, 623], "encoder_size": [644, 616], "tokens": 506,
    }  # fmt: skip
    assert crop.region.page == PageRef("K", 1)


def test_visual_tokens_of_a_trajectory_are_those_of_all_images():
    class Shown(ShowsImages):
        max_images = 3
        display = PLAIN

    assert Shown().max_image_tokens == 3 * PLAIN.max_tokens()
