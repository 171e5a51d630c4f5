from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.search_rounds import (
    SearchRound,
    SelectRule,
    interleave,
    search_ndcg,
    select_reward,
)
from tests.systems.unidoc_rl.worked import GOLD, ROUNDS

THIRD = ROUNDS[2].candidates
PAPER = {"rule": SelectRule.ANY, "implicit": False}
RELEASED = {"rule": SelectRule.FIRST, "implicit": True}


def test_worked_example_of_the_search_term():
    assert interleave(ROUNDS) == ["T5", "T2", "R4", "T7", "R5", "T9", "T1", "R6"]
    dcg = 1 / math.log2(5) + 1 / math.log2(7)
    assert search_ndcg(ROUNDS, GOLD) == pytest.approx(dcg / 1.630930, abs=1e-6)
    assert search_ndcg(ROUNDS, GOLD) == pytest.approx(0.482476, abs=1e-6)
    assert search_ndcg([], GOLD) == search_ndcg(ROUNDS, set()) == 0


@pytest.mark.parametrize(
    ("rounds", "paper", "released"),
    [(ROUNDS, 1, 2 / 3), ([*ROUNDS[:2], SearchRound(THIRD)], 2 / 3, 2 / 3), ([], 0, 0)],
)
def test_worked_example_of_the_selection_term(rounds, paper, released):
    assert select_reward(rounds, GOLD, **PAPER) == pytest.approx(paper)
    assert select_reward(rounds, GOLD, **RELEASED) == pytest.approx(released)


@pytest.mark.parametrize(
    ("selected", "settings", "value"),
    [
        ("R4", {}, 1),
        ("R5", {}, 0),
        (None, {}, 0),
        (None, {"implicit": True}, 1),
        ("R4", {"pseudo_positive": False}, 0),
        (None, {"implicit": True, "pseudo_positive": False}, 0),
    ],
)
@pytest.mark.parametrize("rule", SelectRule)
def test_searches_without_gold(selected, settings, value, rule):
    assert select_reward([SearchRound(THIRD, selected=selected)], GOLD, rule=rule, **settings) == value


@pytest.mark.parametrize(
    "arguments",
    [
        {"candidates": ()},
        {"candidates": ("a", "a")},
        {"candidates": ("a",), "selected": "b"},
        {"candidates": ("a",), "drawn_on": "b"},
    ],
)
def test_rounds_that_cannot_be(arguments):
    with pytest.raises(ValueError):
        SearchRound(**arguments)


def test_the_first_boxes_of_a_search_stay():
    drawn = SearchRound(("a", "b"), selected="a").drawn(((0.0, 0.0, 0.1, 0.1),))
    assert (drawn.boxes, drawn.drawn_on) == (((0.0, 0.0, 0.1, 0.1),), "a")
    assert drawn.drawn(((0.5, 0.5, 0.6, 0.6),)) is drawn


WRONG, RIGHT = SearchRound(("a", "b"), selected="a"), SearchRound(("a", "b"), selected="b")
JUNK, OTHER = SearchRound(("x", "y"), selected="x"), SearchRound(("x", "y"), selected="y")


@pytest.mark.parametrize(
    ("rounds", "mean", "capped"),
    [
        # junk searches make up for a wrong choice unless capped
        ([WRONG, JUNK, JUNK, JUNK], 0.75, 0),
        ([RIGHT, JUNK], 1, 1),
        # a search that was not followed up costs what it costs in the mean
        ([RIGHT, SearchRound(("x",))], 0.5, 0.5),
        # where no search has a gold candidate: 1 if every first one was chosen, any other choice is wrong
        ([JUNK, JUNK], 1, 1),
        ([JUNK, OTHER], 0.5, 0),
        ([], 0, 0),
    ],
)
def test_capped(rounds, mean, capped):
    assert select_reward(rounds, {"b"}, rule=SelectRule.ANY) == mean
    assert select_reward(rounds, {"b"}, rule=SelectRule.ANY, capped=True) == capped


pages = st.integers(0, 9)
candidates = st.lists(pages, min_size=1, max_size=4, unique=True)
gold_sets = st.sets(pages, min_size=1, max_size=4)


@st.composite
def searches(draw, min_size=0):
    found = draw(st.lists(candidates, min_size=min_size, max_size=5))
    return [SearchRound(tuple(each), selected=draw(st.sampled_from([None, *each]))) for each in found]


def slow_ndcg(rounds, gold):
    """Written from the formula, with explicit loops."""
    union = []
    for rank in range(10):
        for item in rounds:
            if rank < len(item.candidates) and item.candidates[rank] not in union:
                union.append(item.candidates[rank])
    dcg = 0.0
    for i, page in enumerate(union):
        relevance = 1 if page in gold else 0
        dcg += (2**relevance - 1) / math.log2(i + 2)
    return dcg / sum(1 / math.log2(i + 2) for i in range(len(gold)))


def slow_select(rounds, gold, variant, pseudo):
    total = 0
    for item in rounds:
        chosen = item.selected
        in_gold = [page for page in item.candidates if page in gold]
        if variant == "paper":
            if chosen is not None and in_gold:
                total += chosen in gold
            elif chosen is not None and pseudo:
                total += chosen == item.candidates[0]
        else:
            chosen = item.candidates[0] if chosen is None else chosen
            if in_gold:
                total += chosen == in_gold[0]
            elif pseudo:
                total += chosen == item.candidates[0]
    return total / len(rounds) if rounds else 0


@settings(max_examples=60)
@given(searches(), gold_sets, st.booleans())
def test_equals_the_slow_versions(rounds, gold, pseudo):
    assert search_ndcg(rounds, gold) == pytest.approx(slow_ndcg(rounds, gold))
    assert 0 <= search_ndcg(rounds, gold) <= 1 + 1e-12
    for name, how in (("paper", PAPER), ("released", RELEASED)):
        value = select_reward(rounds, gold, **how, pseudo_positive=pseudo)
        assert value == pytest.approx(slow_select(rounds, gold, name, pseudo))


@settings(max_examples=40)
@given(searches(min_size=1), gold_sets, st.data())
def test_repeating_a_search_never_pays_and_ranking_a_gold_page_higher_never_costs(rounds, gold, data):
    k = data.draw(st.integers(0, len(rounds) - 1))
    assert search_ndcg([*rounds, rounds[k]], gold) == search_ndcg(rounds, gold)
    found = list(rounds[k].candidates)
    for r in range(1, len(found)):
        if found[r] in gold and found[r - 1] not in gold:
            better = SearchRound((*found[: r - 1], found[r], found[r - 1], *found[r + 1 :]))
            value = search_ndcg([*rounds[:k], better, *rounds[k + 1 :]], gold)
            assert value >= search_ndcg(rounds, gold) - 1e-12


@settings(max_examples=40)
@given(searches(min_size=1), gold_sets, st.lists(st.booleans(), max_size=4), st.sampled_from(SelectRule))
def test_capped_searches_without_gold_earn_nothing(rounds, gold, chosen, rule):
    junk = [SearchRound(("junk", "more"), selected="junk" if first else "more") for first in chosen]
    before = select_reward(rounds, gold, rule=rule, capped=True)
    assert select_reward([*rounds, *junk], gold, rule=rule, capped=True) <= before + 1e-12
    assert before <= select_reward(rounds, gold, rule=rule) + 1e-12
