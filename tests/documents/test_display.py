import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from docagent_rl.documents.display import DisplayRule, clamp_area
from docagent_rl.documents.settings import DisplayError

PLAIN = DisplayRule(snap=False)
SNAP = DisplayRule()


@pytest.mark.parametrize(
    ("rule", "page", "shown", "encoder", "tokens"),
    [
        # scaled by sqrt(401_408 / (1733 * 1226)) = 0.434659
        (PLAIN, (1733, 1226), (753, 532), (756, 532), 27 * 19),
        (SNAP, (1733, 1226), (728, 532), (728, 532), 26 * 19),
        # by sqrt(200_704 / (500 * 360)) = 1.055946: small pages are enlarged
        (PLAIN, (500, 360), (527, 380), (532, 392), 19 * 14),
    ],
)
def test_worked_examples(rule, page, shown, encoder, tokens):
    assert (rule.shown(page), rule.encoder(shown), rule.tokens(shown)) == (shown, encoder, tokens)
    assert SNAP.max_tokens() == 512
    assert clamp_area((600, 500), 200_704, 401_408) == (600, 500)


sides = st.integers(1, 9000)


@pytest.mark.parametrize(
    "rule", [SNAP, PLAIN, *(DisplayRule(min_pixels=n, max_pixels=n) for n in (50_176, 802_816))]
)
@given(width=sides, height=sides)
def test_shown_images_suit_the_processor(rule, width, height):
    ratio = max(width, height) / min(width, height)
    try:
        shown = rule.shown((width, height))
    except DisplayError:
        # nothing near the limit of 200 is refused but what is over it, or over it once rounded
        assert ratio > 60
        return
    encoder = rule.encoder(shown)
    assert encoder[0] % 28 == encoder[1] % 28 == 0
    if rule is not PLAIN:
        assert shown == encoder
    assert rule.tokens(shown) <= rule.max_tokens(ratio + (rule is PLAIN))


def test_what_cannot_be_shown_or_is_no_rule_is_refused():
    for size in ((0, 5), (5, 0), (201, 1), (1, 100_000)):
        with pytest.raises(DisplayError):
            PLAIN.shown(size)
    for name, value in (
        ("min_pixels", 500_000),
        ("grid", {"unit": 1000}),
        ("grid", {"max_pixels": 300_000}),
        ("size", 3),
    ):
        with pytest.raises(ValidationError):
            DisplayRule(**{name: value})
