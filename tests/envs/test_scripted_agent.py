"""Boxes of pages, and where they are on the views that show them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.envs.scripted_agent import AgentState, on_view
from docagent_rl.samples.sample import Sample, Split

WHOLE = (0.0, 0.0, 1.0, 1.0)
EDGE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("box", "region", "wanted"),
    [
        ((0.1, 0.2, 0.5, 0.6), WHOLE, [10, 40, 50, 120]),
        # the lower half of the page: its 0.6 to 0.8 are 0.2 to 0.6 of the view
        ((0.0, 0.6, 1.0, 0.8), (0.0, 0.5, 1.0, 1.0), [0, 40, 100, 120]),
        # outward
        ((0.101, 0.2, 0.499, 0.6), WHOLE, [10, 40, 50, 120]),
        # beyond the view
        ((0.0, 0.0, 1.0, 1.0), (0.25, 0.25, 0.75, 0.75), [0, 0, 100, 200]),
    ],
)
def test_a_box_of_the_page_is_one_of_the_view(box, region, wanted):
    assert on_view(box, region, (100, 200)) == wanted


@settings(max_examples=50)
@given(EDGE, EDGE, EDGE, EDGE)
def test_a_box_is_never_empty_and_stays_inside(x1, y1, x2, y2):
    left, top, right, bottom = on_view((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), WHOLE, (90, 70))
    assert 0 <= left < right <= 90
    assert 0 <= top < bottom <= 70


def test_boxes_are_known_in_all_documents_of_a_question():
    boxes, extra = {3: ((0.1, 0.2, 0.5, 0.6),)}, {"other_boxes": {"M#2": [[0.0, 0.0, 1.0, 0.5]]}}
    sample = Sample("q", "made", Split.TRAIN, "K", "What?", ("1",), evidence_boxes=boxes, extra=extra)
    state = AgentState(sample, store=None, turns=3, rng=random.Random(0))
    assert state.boxes(PageRef("K", 3)) == boxes[3]
    assert state.boxes(PageRef("M", 2)) == ((0.0, 0.0, 1.0, 0.5),)
    assert state.boxes(PageRef("M", 3)) == state.boxes(PageRef("K", 2)) == ()
