from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.envs.images import Fill, ImageRef, ImageSheet, Label, Resample, Tile
from docagent_rl.errors import UserError
from docagent_rl.sft.pictures import read_picture

pixels = st.integers(0, 4096)
pages = st.builds(PageRef, st.text(min_size=1), st.integers(1, 500))
references = st.builds(
    ImageRef,
    page=pages,
    page_hash=st.sampled_from(["0" * 64, "0123456789abcdef" * 4]),
    raster=st.tuples(pixels, pixels, pixels, pixels),
    size=st.tuples(pixels, pixels),
    resample=st.sampled_from(Resample),
)
boxes = st.tuples(pixels, pixels, pixels, pixels)
colours = st.tuples(*[st.integers(0, 255)] * 3)
sheets = st.builds(
    ImageSheet,
    canvas=st.tuples(pixels, pixels),
    size=st.tuples(pixels, pixels),
    tiles=st.lists(st.builds(Tile, references, st.tuples(pixels, pixels)), max_size=3).map(tuple),
    fills=st.lists(st.builds(Fill, boxes, colours), max_size=2).map(tuple),
    labels=st.lists(st.builds(Label, st.text(), boxes, pixels), max_size=2).map(tuple),
    background=colours,
)


@settings(max_examples=50)
@given(references | sheets)
def test_every_picture_survives_json(picture):
    again = read_picture(json.loads(json.dumps(picture.to_dict())))
    assert again == picture
    assert again.key == picture.key


@pytest.mark.parametrize(
    "change",
    [{"size": [1]}, {"raster": None}, {"resample": "nearest"}, {"page": "no number"}, {"size": ["a", 2]}],
)
def test_what_is_no_picture_is_refused(change):
    good = ImageRef(PageRef("d", 1), "0" * 64, (0, 0, 1, 1), (28, 28)).to_dict()
    with pytest.raises(UserError):
        read_picture({**good, **change})
    with pytest.raises(UserError, match="KeyError"):
        read_picture({key: value for key, value in good.items() if key != "page_hash"})
