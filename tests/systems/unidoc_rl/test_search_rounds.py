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


pages = st.integers(1, 9)
candidates = st.lists(pages, min_size=1, max_size=4, unique=True).map(tuple)
gold_sets = st.sets(pages, min_size=1, max_size=4)
searches = st.lists(
    candidates.flatmap(lambda found: st.builds(SearchRound, st.just(found), st.sampled_from([None, *found]))),
    max_size=5,
)


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


def slow_select(rounds, gold, variant, *, pseudo_positive, capped):
    total = count = 0
    for item in rounds:
        chosen, first = item.selected, item.candidates[0]
        in_gold = [page for page in item.candidates if page in gold]
        if variant == "released":
            chosen = chosen or first
            right = chosen == in_gold[0] if in_gold else pseudo_positive and chosen == first
        else:
            right = chosen in in_gold if in_gold else pseudo_positive and chosen == first
        if in_gold or not right or not capped:
            total, count = total + right, count + 1
    return total / count if count else float(bool(rounds))


@settings(max_examples=80)
@given(
    searches, gold_sets, st.fixed_dictionaries({"pseudo_positive": st.booleans(), "capped": st.booleans()})
)
def test_equals_the_slow_versions(rounds, gold, how):
    assert search_ndcg(rounds, gold) == pytest.approx(slow_ndcg(rounds, gold))
    for variant, rule in (("paper", PAPER), ("released", RELEASED)):
        value = select_reward(rounds, gold, **rule, **how)
        assert value == pytest.approx(slow_select(rounds, gold, variant, **how))
