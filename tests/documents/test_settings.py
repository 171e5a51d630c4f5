from __future__ import annotations

import pytest

from docagent_rl.documents import RendererKind, RenderSettings
from docagent_rl.errors import UserError


@pytest.mark.parametrize(
    "values", [{"dpi": 0}, {"dpi": 5000}, {"max_side": 1}, {"max_side": 70000}, {"jpeg_quality": 0}]
)
def test_values_out_of_range_are_named(values):
    with pytest.raises(UserError, match=next(iter(values))):
        RenderSettings(**values)


def test_every_setting_of_a_pdf_is_in_its_key():
    keys = {
        RenderSettings().pdf_key(),
        RenderSettings(renderer=RendererKind.PDF2IMAGE).pdf_key(),
        RenderSettings(dpi=72).pdf_key(),
        RenderSettings(max_side=1000).pdf_key(),
        RenderSettings(jpeg_quality=50).pdf_key(),
    }
    assert len(keys) == 5


def test_page_images_do_not_depend_on_the_pdf_renderer():
    plain = RenderSettings().image_key()
    assert plain == RenderSettings(renderer=RendererKind.PDF2IMAGE, dpi=72).image_key()
    assert plain != RenderSettings(max_side=1000).image_key()
