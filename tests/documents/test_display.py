from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize as published

from docagent_rl.documents.display import DisplayError, DisplayRule, clamp_area, smart_resize

PLAIN = DisplayRule(snap=False)
SNAP = DisplayRule()


def test_page_of_the_worked_example():
    page = (1733, 1226)
    assert math.sqrt(401_408 / (1733 * 1226)) == pytest.approx(0.434659, abs=1e-6)
    assert PLAIN.shown(page) == (753, 532)
    assert PLAIN.encoder((753, 532)) == (756, 532)
    assert PLAIN.tokens((753, 532)) == 27 * 19 == 513
    assert SNAP.shown(page) == SNAP.encoder((728, 532)) == (728, 532)
    assert SNAP.tokens((728, 532)) == 494


def test_crop_of_the_worked_example():
    assert PLAIN.shown((654, 633)) == (643, 623)
    assert PLAIN.encoder((643, 623)) == (644, 616)
    assert PLAIN.tokens((643, 623)) == 506


def test_small_pages_are_enlarged():
    assert math.sqrt(200_704 / (500 * 360)) == pytest.approx(1.055946, abs=1e-6)
    assert PLAIN.shown((500, 360)) == (527, 380)
    assert PLAIN.encoder((527, 380)) == (532, 392)
    assert PLAIN.tokens((527, 380)) == 266


def test_images_in_between_stay():
    assert clamp_area((600, 500), 200_704, 401_408) == (600, 500)


def test_smart_resize_equals_the_published_one():
    rng = random.Random(1)
    agreed = 0
    for _ in range(5_000):
        width, height = (int(math.exp(rng.uniform(0, math.log(6000)))) for _ in range(2))
        factor = rng.choice((14, 28, 32))
        low = rng.choice((56 * 56, 100 * 784, 200_704))
        high = rng.choice((78_400, 200_704, 401_408, 1_003_520, 12_845_056))
        try:
            expected = published(height, width, factor, low, high)
        except ValueError:
            with pytest.raises(DisplayError):
                smart_resize((width, height), factor, low, high)
            continue
        assert smart_resize((width, height), factor, low, high) == expected[::-1]
        agreed += 1
    assert agreed > 4_000


def test_a_narrow_side_keeps_one_token():
    assert (
        smart_resize((5000, 30), 28, 3136, 78_400)
        == published(30, 5000, 28, 3136, 78_400)[::-1]
        == (3612, 28)
    )


sides = st.integers(1, 9000)


@given(sides, sides, st.booleans())
def test_shown_images_suit_the_processor(width, height, snap):
    rule = SNAP if snap else PLAIN
    try:
        shown = rule.shown((width, height))
    except DisplayError:
        # nothing near the limit of 200 is refused but what is over it, or over it once rounded
        assert max(width, height) / min(width, height) > 60
        return
    encoder = rule.encoder(shown)
    assert encoder[0] % 28 == encoder[1] % 28 == 0
    if snap:
        assert shown == encoder
    assert rule.tokens(shown) <= rule.max_tokens(max(width, height) / min(width, height) + 1)


@given(st.integers(100, 4000), st.floats(1, 2), st.booleans())
def test_token_bound_of_pages(width, ratio, snap):
    rule = SNAP if snap else PLAIN
    assert rule.tokens(rule.shown((width, int(width * ratio)))) <= rule.max_tokens()
    assert SNAP.max_tokens() == 512


@pytest.mark.parametrize("pixels", [64 * 784, 256 * 784, 1024 * 784])
@given(width=st.integers(30, 3000), height=st.integers(30, 3000))
def test_other_budgets(pixels, width, height):
    rule = DisplayRule(min_pixels=pixels, max_pixels=pixels)
    try:
        shown = rule.shown((width, height))
    except DisplayError:
        return
    assert shown == rule.encoder(shown)
    assert rule.tokens(shown) <= rule.max_tokens(max(width, height) / min(width, height))


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (201, 1), (1, 100_000)])
def test_sizes_that_cannot_be_shown(size):
    with pytest.raises(DisplayError):
        PLAIN.shown(size)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_pixels": 500_000}, "min_pixels is above max_pixels"),
        ({"factor": 1000}, "below one visual token"),
        ({"encoder_max_pixels": 300_000}, "outside what the image processor leaves alone"),
        ({"size": 3}, "Extra inputs"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(ValidationError, match=message):
        DisplayRule(**settings)
