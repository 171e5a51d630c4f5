from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.roi import iou, matches, roi_f1, roi_iou
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound
from tests.systems.unidoc_rl.worked import DRAWN, ROUNDS, WANTED

GOLD = WANTED["T9"]
# one box over two gold ones, which it covers by 0.9 and 0.950625
COVERED, COVER = [(0.1, 0.1, 0.9, 0.46), (0.11, 0.11, 0.89, 0.5)], (0.1, 0.1, 0.9, 0.5)
POINT = (0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        (DRAWN[0], GOLD[0], 0.891897),
        (DRAWN[1], GOLD[1], 0.337861),
        (COVER, COVERED[0], 0.9),
        (COVER, COVERED[1], 0.950625),
        (POINT, POINT, 0),
        (POINT, (0, 0, 1, 1), 0),
        ((0, 0, 0.5, 1), (0.5, 0, 1, 1), 0),
    ],
)
def test_iou(a, b, value):
    assert iou(a, b) == iou(b, a) == pytest.approx(value, abs=1e-6)


def round_of(*candidates, selected=None, **drawn):
    return SearchRound(candidates, selected=selected, **drawn)


JUNK, NONE = round_of("x", selected="x"), [round_of("a", "b", selected="a"), round_of("c", selected="c")]


@pytest.mark.parametrize(
    ("rounds", "settings", "by_iou", "by_f1"),
    [
        (ROUNDS, {}, 0.614879, 0.833333),
        (ROUNDS[:1], {}, 0.614879, 0.5),
        # where there is nothing to draw, drawing nothing is right
        (NONE, {}, 1, 1),
        (NONE, {"abstention": False}, 0, 0),
        ([round_of("T9", selected="T9"), *NONE], {}, 0, 2 / 3),
        ([round_of("a", selected="a", boxes=DRAWN)], {}, 0, 0),
        # without a choice
        ([], {}, 0, 0),
        ([round_of("a", "b")], {}, 0, 0),
        ([round_of("a", "b")], {"implicit": True}, 1, 1),
        ([round_of("T9", "b")], {"implicit": True}, 0, 0),
        # the release looks at the page chosen last, which has nothing to draw
        ([round_of("T9", "b", selected="b", boxes=(GOLD[0],), drawn_on="T9")], {}, 1, 0),
    ],
)
def test_the_terms(rounds, settings, by_iou, by_f1):
    assert roi_iou(rounds, WANTED, **settings) == pytest.approx(by_iou, abs=1e-6)
    assert roi_f1(rounds, WANTED, **settings) == pytest.approx(by_f1, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "value"),
    [(round_of("g", "b"), 0), (round_of("b"), 1), (round_of("g", "b", selected="g"), 1)],
)
def test_a_junk_choice_does_not_make_up_for_a_missed_one(first, value):
    assert roi_iou([first, JUNK], {}, gold={"g"}) == value
    assert roi_iou([first], {}, gold={"g"}) == (value if first.selected else 0)


def test_one_box_over_two_gold_boxes_matches_once():
    """Without one-to-one matching the F1 would be 1.33."""
    rounds = [SearchRound(("p",), selected="p", boxes=(COVER,))]
    assert roi_f1(rounds, {"p": COVERED}) == pytest.approx(2 / 3)
    assert roi_f1(rounds, {"p": COVERED}, threshold=0.951) == 0


@pytest.mark.parametrize(
    ("gold", "drawn", "threshold", "count"),
    [
        (COVERED, [COVER], 0.5, 1),
        (COVERED, [COVER], 0.95, 1),
        (COVERED, [COVER], 0.951, 0),
        ([COVER], [COVER], 1.0, 1),
        ([COVER] * 2, [COVER], 0.5, 1),
        ([COVER] * 2, [COVER] * 3, 0.5, 2),
    ],
)
def test_matches(gold, drawn, threshold, count):
    assert matches(gold, drawn, threshold) == count


SIDE = 6


@st.composite
def grid_box(draw):
    x1, y1 = draw(st.integers(0, SIDE - 1)), draw(st.integers(0, SIDE - 1))
    return x1, y1, draw(st.integers(x1 + 1, SIDE)), draw(st.integers(y1 + 1, SIDE))


def cells(box):
    return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}


def slow_iou(a, b):
    """By counting cells."""
    return len(cells(a) & cells(b)) / len(cells(a) | cells(b))


def slow_matches(gold, drawn, threshold):
    """Pick the best free pair until none is left."""
    gold, drawn, count = dict(enumerate(gold)), dict(enumerate(drawn)), 0
    while gold and drawn:
        value, i, j = max((slow_iou(gold[i], drawn[j]), -i, -j) for i in gold for j in drawn)
        if value < threshold:
            break
        del gold[-i], drawn[-j]
        count += 1
    return count


def scaled(boxes):
    # eighths are exact in binary, so that ties stay ties
    return tuple(tuple(edge / 8 for edge in box) for box in boxes)


boxes = st.lists(grid_box(), max_size=4)


@settings(max_examples=60)
@given(st.lists(st.tuples(boxes, boxes), max_size=3))
def test_the_terms_equal_the_slow_versions(pages):
    rounds = [SearchRound((k,), selected=k, boxes=scaled(drawn)) for k, (_, drawn) in enumerate(pages)]
    wanted = {k: scaled(gold) for k, (gold, _) in enumerate(pages) if gold}
    f1 = [
        2 * slow_matches(gold, drawn, 0.5) / (len(gold) + len(drawn)) if gold or drawn else 1.0
        for gold, drawn in pages
    ]
    assert roi_f1(rounds, wanted) == pytest.approx(sum(f1) / len(f1) if f1 else 0)
    best = [max([slow_iou(box, q) for q in gold], default=0.0) for gold, drawn in pages for box in drawn]
    expected = sum(best) / len(best) if best else float(bool(pages) and not wanted)
    assert roi_iou(rounds, wanted) == pytest.approx(expected)
