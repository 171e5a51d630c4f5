import io
import json

import numpy as np
import pytest
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.envs.images import render
from docagent_rl.lab.viewer.images import JPEG, PNG, thumbnail, trajectory_image
from tests.viewer_runs import BOX, GOLD, part, sheet, trajectory, whole


@pytest.fixture
def line(store):
    return json.loads(trajectory(store).to_json())


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_an_image_is_what_the_model_saw(line, store):
    shown = [sheet(store, "K#1", "K#2", GOLD), whole(store, GOLD), part(store, GOLD, BOX)]
    for number, picture in enumerate(shown):
        content, kind = trajectory_image(line, number, store)
        assert kind == PNG
        assert np.array_equal(pixels(content), np.asarray(render(picture, store)))
    for number, where, named in ((3, store, "3"), (0, None, "--store")):
        with pytest.raises(UserError, match=named):
            trajectory_image(line, number, where)


@pytest.mark.parametrize(
    ("name", "value"),
    [("page", "../../etc/passwd#1"), ("page_hash", "0"), ("size", [10**6, 10**6]), ("size", [0, 9]),
     ("raster", [0, 0, 10**7, 10**7]), ("raster", [5, 5, 1, 1]), ("raster", "x"), ("tiles",
     [{"image": {}}])],
)  # fmt: skip
def test_a_hostile_description_is_refused(line, store, name, value):
    line["prompt"][0]["parts"][1]["image"] = {**whole(store, GOLD).to_dict(), name: value}
    with pytest.raises(UserError):
        trajectory_image(line, 0, store)


def test_a_thumbnail_has_the_width_that_was_asked_for(store):
    content, kind = thumbnail(store, "K", 3, 160)
    assert (kind, pixels(content).shape[1]) == (JPEG, 160)
    for doc, page, width in (("K", 9, 160), ("../K", 1, 160), ("K", 1, 10**6), ("K", 1, 0)):
        with pytest.raises(UserError):
            thumbnail(store, doc, page, width)
