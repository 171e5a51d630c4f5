from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.search_rounds import (
    SearchRound,
    SelectRule,
    interleave,
    search_ndcg,
    select_reward,
)

GOLD = {"T7", "T9"}
FIRST = SearchRound(("T5", "T7", "T9"), selected="T9")
SECOND = SearchRound(("T2", "T7", "T1"), selected="T7")
THIRD = SearchRound(("R4", "R5", "R6"), selected="R4")
WORKED = [FIRST, SECOND, THIRD]
PAPER = {"rule": SelectRule.ANY, "implicit": False}
RELEASED = {"rule": SelectRule.FIRST, "implicit": True}


def test_worked_example_of_the_search_term():
    assert interleave(WORKED) == ["T5", "T2", "R4", "T7", "R5", "T9", "T1", "R6"]
    dcg = 1 / math.log2(5) + 1 / math.log2(7)
    assert dcg == pytest.approx(0.786884, abs=1e-6)
    assert search_ndcg(WORKED, GOLD) == pytest.approx(dcg / 1.630930, abs=1e-6)
    assert search_ndcg(WORKED, GOLD) == pytest.approx(0.482476, abs=1e-6)


def test_worked_example_of_the_selection_term():
    assert select_reward(WORKED, GOLD, **PAPER) == 1
    assert select_reward(WORKED, GOLD, **RELEASED) == pytest.approx(2 / 3)
    unselected = [FIRST, SECOND, SearchRound(THIRD.candidates)]
    assert select_reward(unselected, GOLD, **PAPER) == pytest.approx(2 / 3)
    assert select_reward(unselected, GOLD, **RELEASED) == pytest.approx(2 / 3)


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
    rounds = [SearchRound(THIRD.candidates, selected=selected)]
    assert select_reward(rounds, GOLD, rule=rule, **settings) == value


def test_no_search():
    assert search_ndcg([], GOLD) == 0
    assert search_ndcg(WORKED, set()) == 0
    assert select_reward([], GOLD, **PAPER) == 0


@pytest.mark.parametrize(
    "arguments", [{"candidates": ()}, {"candidates": ("a", "a")}, {"candidates": ("a",), "selected": "b"}]
)
def test_rounds_that_cannot_be(arguments):
    with pytest.raises(ValueError):
        SearchRound(**arguments)


pages = st.integers(0, 9)
candidates = st.lists(pages, min_size=1, max_size=4, unique=True)


@st.composite
def rounds_strategy(draw, max_size=5):
    rounds = []
    for found in draw(st.lists(candidates, max_size=max_size)):
        rounds.append(SearchRound(tuple(found), selected=draw(st.sampled_from([None, *found]))))
    return rounds


gold_sets = st.sets(pages, min_size=1, max_size=4)


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


@given(rounds_strategy(), gold_sets, st.booleans())
def test_equals_the_slow_versions_and_stays_in_bounds(rounds, gold, pseudo):
    assert search_ndcg(rounds, gold) == pytest.approx(slow_ndcg(rounds, gold))
    assert 0 <= search_ndcg(rounds, gold) <= 1 + 1e-12
    paper = select_reward(rounds, gold, **PAPER, pseudo_positive=pseudo)
    released = select_reward(rounds, gold, **RELEASED, pseudo_positive=pseudo)
    assert paper == pytest.approx(slow_select(rounds, gold, "paper", pseudo))
    assert released == pytest.approx(slow_select(rounds, gold, "released", pseudo))
    assert 0 <= min(paper, released) <= max(paper, released) <= 1


@given(rounds_strategy(), gold_sets, st.data())
def test_repeating_a_search_never_pays_in_the_search_term(rounds, gold, data):
    assume(rounds)
    again = data.draw(st.sampled_from(rounds))
    assert search_ndcg([*rounds, again], gold) == search_ndcg(rounds, gold)


@given(rounds_strategy(), gold_sets, st.data())
def test_a_gold_page_ranked_higher_never_scores_less(rounds, gold, data):
    places = [
        (k, r)
        for k, item in enumerate(rounds)
        for r in range(1, len(item.candidates))
        if item.candidates[r] in gold and item.candidates[r - 1] not in gold
    ]
    assume(places)
    k, r = data.draw(st.sampled_from(places))
    found = list(rounds[k].candidates)
    found[r - 1], found[r] = found[r], found[r - 1]
    better = [*rounds[:k], SearchRound(tuple(found)), *rounds[k + 1 :]]
    assert search_ndcg(better, gold) >= search_ndcg(rounds, gold) - 1e-12


def test_junk_searches_make_up_for_a_wrong_choice_unless_capped():
    wrong, junk = SearchRound(("a", "b"), selected="a"), SearchRound(("x",), selected="x")
    assert select_reward([wrong, junk, junk, junk], {"b"}, rule=SelectRule.ANY) == 0.75
    assert select_reward([wrong, junk, junk, junk], {"b"}, rule=SelectRule.ANY, capped=True) == 0
    right = SearchRound(("a", "b"), selected="b")
    assert select_reward([right, junk], {"b"}, rule=SelectRule.ANY, capped=True) == 1
    # a search that was not followed up costs what it costs in the mean
    assert select_reward([right, SearchRound(("x",))], {"b"}, rule=SelectRule.ANY, capped=True) == 0.5


@given(rounds_strategy(), gold_sets, st.lists(st.booleans(), max_size=4), st.sampled_from(SelectRule))
def test_capped_searches_without_gold_earn_nothing(rounds, gold, chosen, rule):
    assume(rounds)
    junk = [SearchRound(("junk", "more"), selected="junk" if first else "more") for first in chosen]
    before = select_reward(rounds, gold, rule=rule, capped=True)
    assert select_reward([*rounds, *junk], gold, rule=rule, capped=True) <= before + 1e-12
    assert before <= select_reward(rounds, gold, rule=rule) + 1e-12


def test_the_first_boxes_of_a_search_stay():
    drawn = SearchRound(("a", "b"), selected="a").drawn(((0.0, 0.0, 0.1, 0.1),))
    assert (drawn.boxes, drawn.drawn_on) == (((0.0, 0.0, 0.1, 0.1),), "a")
    assert drawn.drawn(((0.5, 0.5, 0.6, 0.6),)) is drawn
    with pytest.raises(ValueError, match="z"):
        SearchRound(("a",), drawn_on="z")


def test_capped_where_no_search_has_a_gold_candidate():
    """1 if every first candidate was chosen; each other choice counts as wrong."""
    first, other = SearchRound(("x", "y"), "x"), SearchRound(("x", "y"), "y")
    assert select_reward([first, first], {"b"}, rule=SelectRule.ANY, capped=True) == 1
    assert select_reward([first, other], {"b"}, rule=SelectRule.ANY, capped=True) == 0
    assert select_reward([], {"b"}, rule=SelectRule.ANY, capped=True) == 0
