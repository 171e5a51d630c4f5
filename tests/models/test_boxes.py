"""For every family, the crop shows what the model points at in the image that its encoder sees."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.views import crop_view, page_view
from docagent_rl.rollout.images import EncodedImage
from tests.models.test_families import SEEING, Processor

TARGET = (331, 507, 702, 781)


class DrawnPage:
    size = (1191, 1684)
    ref = PageRef("report", 1)
    image_hash = "0" * 64


def drawn(size):
    """Return a white page with a red rectangle."""
    page = Image.new("RGB", size, "white")
    left, top, right, bottom = TARGET
    ImageDraw.Draw(page).rectangle((left, top, right - 1, bottom - 1), fill="red")
    return page


def pointed_at(seen, frame):
    """Return the box of the red area in the frame's unit, as a model would write it: in whole
    numbers.
    """
    red = np.asarray(seen).astype(int)
    rows, columns = np.nonzero((red[..., 0] > 200) & (red[..., 1] < 120))
    box = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    scale = (1, 1) if frame is Frame.ENCODER else (1000 / seen.width, 1000 / seen.height)
    return tuple(round(edge * scale[n % 2]) for n, edge in enumerate(box))


@pytest.mark.parametrize("snap", [True, False])
@pytest.mark.parametrize("family", SEEING, ids=lambda family: family.name)
def test_a_crop_shows_what_was_pointed_at(family, snap):
    grid, page = family.vision.grid, DrawnPage()
    rule = DisplayRule(
        min_pixels=256 * grid.unit**2, max_pixels=512 * grid.unit**2, snap=snap, grid=grid
    )
    view = page_view(page, rule, 1)
    shown = drawn(page.size).resize(view.image.size, Image.Resampling.LANCZOS)
    encoded = EncodedImage.make(view.image, shown, Processor(family.name).image_processor)
    assert (encoded.pixels.size, encoded.num_tokens) == (view.encoder_size, view.tokens)
    frame = family.vision.frame
    box = pointed_at(encoded.pixels, frame)
    crop = crop_view(view, box, rule, 2, frame=frame, rounding=Rounding.OUTWARD)
    pixel = page.size[0] / view.encoder_size[0]  # of the page, in one of the encoder
    assert np.abs(np.subtract(crop.image.raster, TARGET)).max() <= 1 + pixel
    # in the unit of another family it would show something else
    other = Frame.NORM1000 if frame is Frame.ENCODER else Frame.ENCODER
    wrong = crop_view(view, box, rule, 2, frame=other, rounding=Rounding.OUTWARD)
    assert np.abs(np.subtract(wrong.image.raster, TARGET)).max() > 4 * pixel
