import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from transformers.models.gemma4.image_processing_gemma4 import get_aspect_ratio_preserving_size
from transformers.models.glm4v.image_processing_glm4v import smart_resize as published_glm
from transformers.models.got_ocr2.image_processing_got_ocr2 import (
    get_optimal_tiled_canvas as published_tiles,
)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as published

from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.grid import GridRule, ImageGrid, smart_resize
from docagent_rl.documents.settings import DisplayError


def test_smart_resize_equals_the_published_one():
    rng, agreed = random.Random(1), 0
    assert smart_resize((5000, 30), 28, 3136, 78_400) == (3612, 28)  # a narrow side keeps one token
    for _ in range(3_000):
        width, height = (int(math.exp(rng.uniform(0, math.log(6000)))) for _ in range(2))
        unit = rng.choice((14, 28, 32))
        low = rng.choice((56 * 56, 100 * 784, 200_704))
        high = rng.choice((78_400, 200_704, 401_408, 1_003_520, 12_845_056))
        try:
            expected = published(height, width, unit, low, high)
        except ValueError:
            with pytest.raises(DisplayError):
                smart_resize((width, height), unit, low, high)
            continue
        assert smart_resize((width, height), unit, low, high) == expected[::-1]
        agreed += 1
    assert agreed > 2_000


side = st.integers(1, 6000)


@given(
    side, side, st.sampled_from([12_544, 100_352, 401_408]), st.sampled_from([802_816, 9_633_792])
)
def test_the_rule_of_glm_equals_the_published_one(width, height, low, high):
    grid = ImageGrid(unit=28, min_pixels=low, max_pixels=high, rule=GridRule.GLM4V)
    try:
        expected = published_glm(2, height, width, 2, 28, low, high)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(DisplayError):
            grid.resize((width, height))
        return
    assert grid.resize((width, height)) == expected[::-1]
    assert grid.tokens((width, height)) == math.prod(expected) // 784


@given(side, side, st.sampled_from([1, 4, 12]))
def test_tiles_are_the_published_ones(width, height, most):
    grid = ImageGrid(rule=GridRule.TILES, max_tiles=most)
    try:
        found = grid.resize((width, height))
    except DisplayError:  # a side ratio above 200
        return
    columns, rows = published_tiles((height, width), (448, 448), 1, most)
    assert found == (448 * columns, 448 * rows)
    tiles = columns * rows
    assert grid.tokens((width, height)) == 256 * (tiles + (tiles > 1)) <= grid.most_tokens
    assert (
        DisplayRule(grid=grid).max_tokens() == grid.most_tokens == {1: 256, 4: 1280, 12: 3328}[most]
    )


@given(side, side, st.sampled_from([70, 280, 1120]))
def test_an_image_that_fills_its_tokens_is_as_large_as_published(width, height, most):
    grid = ImageGrid(unit=48, min_pixels=1, max_pixels=most * 48**2, rule=GridRule.FILLS)
    try:
        found = grid.resize((width, height))
    except DisplayError:  # a side ratio above 200
        return
    assert found[::-1] == get_aspect_ratio_preserving_size(height, width, 16, 9 * most, 3)
    assert (
        grid.tokens((width, height))
        <= grid.most_tokens
        == DisplayRule(grid=grid).max_tokens()
        == most
    )


def test_limits_of_two_frames_are_half_of_those_of_an_image():
    assert ImageGrid().image_limits() == (3136, 12_845_056)
    assert ImageGrid(min_pixels=101, max_pixels=9999, rule="glm4v").image_limits() == (51, 4999)


@pytest.mark.parametrize(
    "values",
    [
        {"min_pixels": 9, "max_pixels": 8},
        {"unit": 4000},
        {"size": 3},
        {"rule": "tiles", "tile": 50},
    ],
)
def test_what_is_no_grid_is_refused(values):
    with pytest.raises(ValidationError):
        ImageGrid(**values)
