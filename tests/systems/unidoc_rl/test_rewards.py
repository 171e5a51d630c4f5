"""The reward of UniDoc-RL: each term against the worked example and a slow version, then the
whole.
"""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.config import VARIANT_DEFAULTS, UniDocConfig
from docagent_rl.systems.unidoc_rl.rewards import (
    FormatMode,
    RoiRule,
    SearchRound,
    interleave,
    matches,
    pattern_reward,
)
from tests.players import formulas
from tests.players.unidoc_rl import Search, matched_f1, mean_iou, selection


def terms(rule, rounds, gold, wanted, *, fmt=1.0, outcome=1.0, implicit=None):
    """Return all terms; a selection is implicit as in the rule's variant."""
    implicit = rule is RELEASED if implicit is None else implicit
    return rule.terms(rounds, gold, wanted, fmt=fmt, outcome=outcome, implicit=implicit)


def changed(rule, **changes):
    return rule.model_copy(update=changes)


def select(rounds, gold, *, implicit=False, **how):
    rule = changed(PAPER, **{"select_capped": False, **how})
    return terms(rule, rounds, gold, {}, implicit=implicit)["select"]


def roi(rule, rounds, wanted, *, gold=(), implicit=False, **how):
    return terms(changed(PAPER, roi_rule=rule, **how), rounds, gold, wanted, implicit=implicit)[
        "roi"
    ]


def search_ndcg(rounds, gold):
    return terms(PAPER, rounds, gold, {})["search_ndcg"]


def searched(*candidates, selected=None, **drawn):
    return SearchRound(candidates, selected=selected, **drawn)


# the worked example of the specification: three searches, two gold pages, two boxes drawn on one
GOLD = {"T7", "T9"}
BOXES = [(0.12, 0.15, 0.52, 0.46), (0.56, 0.48, 0.94, 0.6)]
WANTED = {"T9": BOXES}
DRAWN = ((66 / 532, 118 / 753, 274 / 532, 331 / 753), (352 / 532, 400 / 753, 498 / 532, 480 / 753))
ROUNDS = [
    searched("T5", "T7", "T9", selected="T9", boxes=DRAWN),
    searched("T2", "T7", "T1", selected="T7"),
    searched("R4", "R5", "R6", selected="R4"),
]
WRONG, RIGHT = searched("a", "b", selected="a"), searched("a", "b", selected="b")
NOTHING = [WRONG, searched("c", selected="c")]
JUNK, OTHER = searched("x", "y", selected="x"), searched("x", "y", selected="y")
# one box over two gold ones, which it covers by 0.9 and 0.950625
COVERED, COVER = [(0.1, 0.1, 0.9, 0.46), (0.11, 0.11, 0.89, 0.5)], (0.1, 0.1, 0.9, 0.5)
PAPER, RELEASED = (UniDocConfig.for_variant(variant).reward for variant in VARIANT_DEFAULTS)
GOOD = {"faults": 0, "searched": True, "selected": True, "noted": True, "finished": True}


def test_worked_example_of_the_search_term():
    assert interleave(ROUNDS) == ["T5", "T2", "R4", "T7", "R5", "T9", "T1", "R6"]
    dcg = 1 / math.log2(5) + 1 / math.log2(7)
    assert search_ndcg(ROUNDS, GOLD) == pytest.approx(dcg / 1.630930, abs=1e-6)
    assert search_ndcg(ROUNDS, GOLD) == pytest.approx(0.482476, abs=1e-6)
    assert search_ndcg([], GOLD) == search_ndcg(ROUNDS, set()) == 0


@pytest.mark.parametrize(
    ("rounds", "mean", "capped"),
    [
        # junk searches make up for a wrong choice unless capped
        ([WRONG, JUNK, JUNK, JUNK], 0.75, 0),
        ([RIGHT, JUNK], 1, 1),
        # a search that was not followed up costs what it costs in the mean
        ([RIGHT, SearchRound(("x",))], 0.5, 0.5),
        # where no search has a gold candidate: 1 if every first one was chosen, any other choice is
        # wrong
        ([JUNK, JUNK], 1, 1),
        ([JUNK, OTHER], 0.5, 0),
        ([], 0, 0),
    ],
)
def test_capped(rounds, mean, capped):
    assert select(rounds, {"b"}) == mean
    assert select(rounds, {"b"}, select_capped=True) == capped


@pytest.mark.parametrize(
    ("rounds", "settings", "by_iou", "by_f1"),
    [
        (ROUNDS, {}, 0.614879, 0.833333),
        (ROUNDS[:1], {}, 0.614879, 0.5),
        # where there is nothing to draw, drawing nothing is right
        (NOTHING, {}, 1, 1),
        (NOTHING, {"abstention": False}, 0, 0),
        ([searched("T9", selected="T9"), *NOTHING], {}, 0, 2 / 3),
        ([searched("a", selected="a", boxes=DRAWN)], {}, 0, 0),
        # without a choice
        ([], {}, 0, 0),
        ([searched("a", "b")], {}, 0, 0),
        ([searched("a", "b")], {"implicit": True}, 1, 1),
        ([searched("T9", "b")], {"implicit": True}, 0, 0),
        # the release looks at the page chosen last, which has nothing to draw
        ([searched("T9", "b", selected="b", boxes=(BOXES[0],), drawn_on="T9")], {}, 1, 0),
    ],
)
def test_the_terms(rounds, settings, by_iou, by_f1):
    assert roi(RoiRule.IOU, rounds, WANTED, **settings) == pytest.approx(by_iou, abs=1e-6)
    assert roi(RoiRule.F1, rounds, WANTED, **settings) == pytest.approx(by_f1, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "value"),
    [(searched("g", "b"), 0), (searched("b"), 1), (searched("g", "b", selected="g"), 1)],
)
def test_a_junk_choice_does_not_make_up_for_a_missed_one(first, value):
    assert roi(RoiRule.IOU, [first, JUNK], {}, gold={"g"}) == value


@pytest.mark.parametrize(
    ("gold", "drawn", "threshold", "count"),
    [
        (COVERED, [COVER], 0.95, 1),
        (COVERED, [COVER], 0.951, 0),
        ([COVER], [COVER], 1.0, 1),
        ([COVER] * 2, [COVER] * 3, 0.5, 2),
    ],
)
def test_matches(gold, drawn, threshold, count):
    assert matches(gold, drawn, threshold) == count


pages = st.integers(1, 9)
candidates = st.lists(pages, min_size=1, max_size=3, unique=True).map(tuple)
gold_sets = st.sets(pages, min_size=1, max_size=4)
searches = st.lists(
    candidates.flatmap(
        lambda found: st.builds(SearchRound, st.just(found), st.sampled_from([None, *found]))
    ),
    max_size=5,
)


SIDE = 6


@st.composite
def grid_box(draw):
    # eighths are exact in binary, so that ties stay ties
    x1, y1 = draw(st.integers(0, SIDE - 1)), draw(st.integers(0, SIDE - 1))
    box = x1, y1, draw(st.integers(x1 + 1, SIDE)), draw(st.integers(y1 + 1, SIDE))
    return tuple(edge / 8 for edge in box)


boxes = st.lists(grid_box(), max_size=4).map(tuple)


def retold(item):
    """Convert a search to the form of the slow versions."""
    return Search(
        list(item.candidates), item.selected, [(item.selected, box) for box in item.boxes]
    )


@settings(max_examples=60)
@given(
    searches,
    gold_sets,
    st.dictionaries(pages, boxes, max_size=4),
    st.lists(boxes, min_size=5, max_size=5),
)
def test_the_terms_equal_the_slow_versions(rounds, gold, wanted, drawn):
    chosen = zip(rounds, drawn, strict=False)
    rounds = [item.drawn(some) if item.selected else item for item, some in chosen]
    slow = list(map(retold, rounds))
    ranked = formulas.by_rank([item.candidates for item in rounds])
    for variant, rule in (("paper", PAPER), ("released", RELEASED)):
        found = terms(rule, rounds, gold, wanted)
        assert found["search_ndcg"] == pytest.approx(formulas.ndcg(ranked, gold))
        assert found["select"] == pytest.approx(selection(variant, slow, gold))
        roi = mean_iou(slow, gold, wanted) if rule is PAPER else matched_f1(slow, wanted)
        assert found["roi"] == pytest.approx(roi)


@pytest.mark.parametrize(
    ("mode", "changes", "value"),
    [
        (FormatMode.STRICT, {"faults": 1}, 0),
        (FormatMode.STRICT, {"finished": False}, 0),
        (FormatMode.STRICT, {"searched": False, "selected": False, "noted": False}, 1),
        (FormatMode.TIERED, {"faults": 3}, 1),
        (FormatMode.TIERED, {"finished": False}, 0.5),
        (FormatMode.TIERED, {"searched": False}, 0),
        (FormatMode.TIERED, {"selected": False}, 0),
        (FormatMode.TIERED, {"noted": False}, 0),
    ],
)
def test_format(mode, changes, value):
    assert pattern_reward(mode, **{**GOOD, **changes}) == value


@pytest.mark.parametrize("rule", [PAPER, RELEASED])
def test_the_settings_of_the_box_term_reach_it(rule):
    values = [
        terms(changed(rule, abstention=abstention), [searched("a")], {"b"}, {}, implicit=implicit)[
            "roi"
        ]
        for implicit, abstention in itertools.product([True, False], repeat=2)
    ]
    assert values == [1, 0, 0, 0]
    matched = [searched("T9", selected="T9", boxes=DRAWN[:1])]
    strict = terms(changed(rule, iou_threshold=0.9), matched, GOLD, {"T9": BOXES[:1]})
    assert strict["roi"] == pytest.approx(0.891897 if rule is PAPER else 0, abs=1e-6)
    denied = [searched("g", "b"), searched("b", selected="b")]
    assert terms(PAPER, denied, {"g"}, {})["roi"] == 0
