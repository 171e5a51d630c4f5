from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.roi import iou, matches, roi_f1, roi_iou
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound


def thousandths(*box):
    return tuple(edge / 1000 for edge in box)


GOLD = {"T9": [thousandths(120, 150, 520, 460), thousandths(560, 480, 940, 600)]}
DRAWN = (
    (66 / 532, 118 / 753, 274 / 532, 331 / 753),
    (352 / 532, 400 / 753, 498 / 532, 480 / 753),
)
WORKED = [
    SearchRound(("T5", "T7", "T9"), selected="T9", boxes=DRAWN),
    SearchRound(("T2", "T7", "T1"), selected="T7"),
    SearchRound(("R4", "R5", "R6"), selected="R4"),
]


def test_worked_example():
    assert iou(DRAWN[0], GOLD["T9"][0]) == pytest.approx(0.891897, abs=1e-6)
    assert iou(DRAWN[1], GOLD["T9"][1]) == pytest.approx(0.337861, abs=1e-6)
    assert roi_iou(WORKED, GOLD) == pytest.approx(0.614879, abs=1e-6)
    assert roi_f1(WORKED[:1], GOLD) == 0.5
    assert roi_f1(WORKED, GOLD) == pytest.approx(0.833333, abs=1e-6)


def test_one_box_over_two_gold_boxes_matches_once():
    """Without one-to-one matching the F1 would be 1.33."""
    gold = [thousandths(100, 100, 900, 460), thousandths(110, 110, 890, 500)]
    drawn = thousandths(100, 100, 900, 500)
    assert iou(drawn, gold[0]) == pytest.approx(0.9)
    assert iou(drawn, gold[1]) == pytest.approx(0.950625)
    rounds = [SearchRound(("p",), selected="p", boxes=(drawn,))]
    assert roi_f1(rounds, {"p": gold}) == pytest.approx(2 / 3)


def test_abstention():
    none = [SearchRound(("a", "b"), selected="a"), SearchRound(("c",), selected="c")]
    assert roi_iou(none, GOLD) == roi_f1(none, GOLD) == 1
    assert roi_iou(none, GOLD, abstention=False) == roi_f1(none, GOLD, abstention=False) == 0
    missed = [SearchRound(("T9",), selected="T9"), *none]
    assert roi_iou(missed, GOLD) == 0
    assert roi_f1(missed, GOLD) == pytest.approx(2 / 3)
    needless = [SearchRound(("a",), selected="a", boxes=DRAWN)]
    assert roi_iou(needless, GOLD) == roi_f1(needless, GOLD) == 0


def test_a_junk_choice_does_not_make_up_for_a_missed_one():
    missed, junk = SearchRound(("g", "b")), SearchRound(("x",), selected="x")
    assert roi_iou([missed], {}, gold={"g"}) == roi_iou([missed, junk], {}, gold={"g"}) == 0
    assert roi_iou([SearchRound(("b",)), junk], {}, gold={"g"}) == 1
    followed = SearchRound(("g", "b"), selected="g")
    assert roi_iou([followed, junk], {}, gold={"g"}) == 1


def test_boxes_are_held_against_the_page_they_were_drawn_on():
    moved = SearchRound(("T9", "b"), selected="b", boxes=(GOLD["T9"][0],), drawn_on="T9")
    assert roi_iou([moved], GOLD) == 1
    # the release looks at the page chosen last, which has nothing to draw
    assert roi_f1([moved], GOLD) == 0


def test_searches_without_a_selection():
    unselected = [SearchRound(("a", "b"))]
    assert roi_iou(unselected, GOLD) == roi_f1(unselected, GOLD) == 0
    assert roi_iou(unselected, GOLD, implicit=True) == roi_f1(unselected, GOLD, implicit=True) == 1
    first_has_boxes = [SearchRound(("T9", "b"))]
    assert roi_iou(first_has_boxes, GOLD, implicit=True) == roi_f1(first_has_boxes, GOLD, implicit=True) == 0
    assert roi_iou([], GOLD) == roi_f1([], GOLD) == 0


def test_rectangles_without_area():
    point = (0.5, 0.5, 0.5, 0.5)
    assert iou(point, point) == 0
    assert iou(point, (0, 0, 1, 1)) == 0
    assert iou((0, 0, 0.5, 1), (0.5, 0, 1, 1)) == 0


@pytest.mark.parametrize(("threshold", "count"), [(0.5, 1), (0.95, 1), (0.951, 0)])
def test_thresholds_of_matches(threshold, count):
    gold = [thousandths(100, 100, 900, 460), thousandths(110, 110, 890, 500)]
    assert matches(gold, [thousandths(100, 100, 900, 500)], threshold) == count


def test_equal_boxes_match_in_order():
    box = (0.1, 0.1, 0.5, 0.5)
    assert matches([box, box], [box], 0.5) == 1
    assert matches([box, box], [box, box, box], 0.5) == 2


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
        best = max(
            ((i, j) for i in gold for j in drawn),
            key=lambda pair: (slow_iou(gold[pair[0]], drawn[pair[1]]), -pair[0], -pair[1]),
        )
        if slow_iou(gold[best[0]], drawn[best[1]]) < threshold:
            break
        del gold[best[0]], drawn[best[1]]
        count += 1
    return count


def scaled(boxes):
    # eighths are exact in binary, so that ties stay ties
    return tuple(tuple(edge / 8 for edge in box) for box in boxes)


boxes = st.lists(grid_box(), max_size=4)


@given(grid_box(), grid_box())
def test_iou_equals_counting(a, b):
    assert iou(*scaled([a, b])) == pytest.approx(slow_iou(a, b))
    assert iou(a, b) == iou(b, a)
    assert iou(a, a) == 1


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
    assert 0 <= roi_f1(rounds, wanted) <= 1
    assert 0 <= roi_iou(rounds, wanted) <= 1


@given(st.lists(grid_box(), min_size=1, max_size=4), grid_box(), st.data())
def test_a_better_box_never_scores_less(drawn, gold, data):
    """One side of one box moves towards the gold box: neither rule pays less."""
    j = data.draw(st.integers(0, len(drawn) - 1))
    side = data.draw(st.integers(0, 3))
    moved = list(drawn[j])
    moved[side] = gold[side]
    if not (moved[0] < moved[2] and moved[1] < moved[3]):
        return
    if slow_iou(tuple(moved), gold) < slow_iou(drawn[j], gold):
        return
    better = [*drawn[:j], tuple(moved), *drawn[j + 1 :]]
    wanted = {"p": scaled([gold])}
    before, after = ([SearchRound(("p",), selected="p", boxes=scaled(boxes))] for boxes in (drawn, better))
    assert roi_iou(after, wanted) >= roi_iou(before, wanted) - 1e-12
    assert roi_f1(after, wanted) >= roi_f1(before, wanted)


@given(boxes, boxes)
def test_a_stricter_threshold_never_matches_more(gold, drawn):
    counts = [matches(scaled(gold), scaled(drawn), threshold) for threshold in (0.3, 0.5, 0.9)]
    assert counts == sorted(counts, reverse=True)
