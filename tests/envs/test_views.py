import pytest

from docagent_rl.actions.coordinates import CropError, Frame, Rounding
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.views import crop_view, page_view


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
    assert (page.image.page_hash, page.to_dict()["page"]) == (LargePage.image_hash, "K#1")

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
