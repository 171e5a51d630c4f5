from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import mean_distance, precision, proximity

PAPER, RELEASED = (AldenConfig.for_variant(variant).reward.rule() for variant in ("paper", "released"))
PAGES = st.sets(st.integers(1, 30), max_size=6)


@pytest.mark.parametrize(
    ("page", "gold", "paper", "released"),
    [
        (7, {7, 11}, 0.1353, 1.0),
        (9, {7, 11}, 0.1353, 0.1104),
        (8, {7}, 0.3679, 0.1820),
        (7, {7}, 1.0, 1.0),
        (7, set(), 0.0, 0.0),
    ],
)
def test_fetch_values(page, gold, paper, released):
    assert PAPER.fetch_credit(page, gold) == pytest.approx(paper, abs=5e-5)
    assert RELEASED.fetch_credit(page, gold) == pytest.approx(released, abs=5e-5)


@given(st.integers(1, 30), PAGES.filter(len))
def test_proximity_against_the_slow_version(page, gold):
    total = 0.0
    for other in gold:
        total += max(page, other) - min(page, other)
    assert proximity(page, gold) == pytest.approx(math.exp(-total / len(gold)))
    released = 1.0 if page in gold else 0.3 * math.exp(-total / len(gold) / 2)
    assert RELEASED.fetch_credit(page, gold) == pytest.approx(released)


@given(st.integers(1, 60), st.integers(1, 60), PAGES)
def test_a_closer_page_never_scores_less(one, other, gold):
    if gold and mean_distance(one, gold) <= mean_distance(other, gold):
        assert PAPER.fetch_credit(one, gold) >= PAPER.fetch_credit(other, gold)
        # in the release a gold page beats any other
        if one in gold or other not in gold:
            assert RELEASED.fetch_credit(one, gold) >= RELEASED.fetch_credit(other, gold)
    for rule in (PAPER, RELEASED):
        assert 0 <= rule.fetch_credit(one, gold) <= 1


@given(st.lists(st.integers(1, 30), max_size=6), PAGES, PAGES)
def test_search_credit_against_the_slow_version(found, gold, seen):
    distinct = list(dict.fromkeys(found))
    hits = [page for page in distinct if page in gold]
    assert PAPER.search_credit(found, gold, seen) == (len(hits) / len(distinct) if distinct else 0)
    assert RELEASED.search_credit(found, gold, seen) == len([page for page in hits if page not in seen])


@given(st.lists(st.integers(1, 30), max_size=6), PAGES, PAGES, PAGES)
def test_search_credit_properties(found, gold, seen, more):
    assert 0 <= precision(found, gold) <= 1
    assert precision(found * 2, gold) == precision(found, gold)
    # what was seen never adds to what a search earns
    for rule in (PAPER, RELEASED):
        assert rule.search_credit(found, gold, seen | more) <= rule.search_credit(found, gold, seen)
    assert RELEASED.search_credit(found, gold, found) == 0


def answer(rule, score, *, refused, answerable, refusal_is_right=None):
    right = not answerable if refusal_is_right is None else refusal_is_right
    return rule.turn(rule.answer_terms(score, refused=refused, answerable=answerable, refusal_is_right=right))


@pytest.mark.parametrize(
    ("score", "refused", "answerable", "paper", "released"),
    [
        (0.8, False, True, 4.0, 4.0),
        (0.1, True, True, 0.5, -5.0),
        (1.0, True, False, 5.0, 5.0),
        (0.9, True, False, 4.5, 4.5),
        (0.2, False, False, 1.0, -2.0),
    ],
)
def test_final_turns(score, refused, answerable, paper, released):
    assert answer(PAPER, score, refused=refused, answerable=answerable) == pytest.approx(paper)
    assert answer(RELEASED, score, refused=refused, answerable=answerable) == pytest.approx(released)


def test_where_references_disagree_the_score_decides():
    assert answer(RELEASED, 1.0, refused=True, answerable=True, refusal_is_right=True) == 5


@pytest.mark.parametrize(
    ("values", "paper", "released"),
    [
        ({}, 0, 0),
        ({"format": -1.0}, -1, -1),
        ({"format": -1.0, "search": 1.0, "answer": 1.0}, -1, -1),
        ({"search": 1.0, "query_repetition": 1.0}, 1, 1),
        ({"fetch": 1.0, "fetch_repetition": 1.0}, 0.5, 0),
        ({"fetch_failed": 1.0}, -0.5, -0.5),
    ],
)
def test_turns(values, paper, released):
    assert (PAPER.turn(values), RELEASED.turn(values)) == (paper, released)


@given(st.fixed_dictionaries({name: st.floats(0, 1) for name in ("search", "fetch", "answer")}))
def test_more_credit_is_never_less_reward(values):
    for rule in (PAPER, RELEASED):
        for name in values:
            assert rule.turn({**values, name: 1.0}) >= rule.turn(values) - 1e-12
        assert rule.turn({**values, "fetch_repetition": 1.0}) <= rule.turn(values)
        assert rule.turn({**values, "fetch_failed": 1.0}) <= rule.turn(values)
