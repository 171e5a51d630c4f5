from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.alden.config import AldenConfig

RULES = [AldenConfig.for_variant(variant).reward for variant in ("paper", "released")]
PAPER, RELEASED = RULES
OUTCOME = AldenConfig.for_variant("paper", reward={"calls": False}).reward
PAGES = st.sets(st.integers(1, 30), max_size=6)


@pytest.mark.parametrize(
    ("page", "gold", "credits"),
    [
        (7, {7, 11}, [0.1353, 1.0]),
        (9, {7, 11}, [0.1353, 0.1104]),
        (8, {7}, [0.3679, 0.1820]),
        (7, {7}, [1.0, 1.0]),
        (7, set(), [0.0, 0.0]),
    ],
)
def test_fetch_values(page, gold, credits):
    assert [rule.fetch_credit(page, gold) for rule in RULES] == pytest.approx(credits, abs=5e-5)


@settings(max_examples=40)
@given(st.integers(1, 30), PAGES.filter(len))
def test_proximity_against_the_slow_version(page, gold):
    total = 0.0
    for other in gold:
        total += max(page, other) - min(page, other)
    assert PAPER.fetch_credit(page, gold) == pytest.approx(math.exp(-total / len(gold)))
    released = 1.0 if page in gold else 0.3 * math.exp(-total / len(gold) / 2)
    assert RELEASED.fetch_credit(page, gold) == pytest.approx(released)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 12), max_size=6), PAGES, PAGES)
def test_search_credit_against_the_slow_version(found, gold, seen):
    distinct = list(dict.fromkeys(found))
    hits = [page for page in distinct if page in gold]
    assert PAPER.search_credit(found, gold, seen) == (len(hits) / len(distinct) if distinct else 0)
    assert RELEASED.search_credit(found, gold, seen) == len([page for page in hits if page not in seen])


@pytest.mark.parametrize(
    ("score", "refused", "answerable", "refusal_is_right", "rewards"),
    [
        (0.8, False, True, False, [4.0, 4.0]),
        (0.1, True, True, False, [0.5, -5.0]),
        (1.0, True, False, True, [5.0, 5.0]),
        (0.9, True, False, True, [4.5, 4.5]),
        (0.2, False, False, True, [1.0, -2.0]),
        # where references disagree the score decides
        (1.0, True, True, True, [5.0, 5.0]),
    ],
)
def test_final_turns(score, refused, answerable, refusal_is_right, rewards):
    said = {"refused": refused, "answerable": answerable, "refusal_is_right": refusal_is_right}
    assert [rule.formula.total(rule.answer_terms(score, **said)) for rule in RULES] == pytest.approx(rewards)


@pytest.mark.parametrize(
    ("values", "rewards"),
    [
        ({}, [0, 0, 0]),
        ({"format": -1.0}, [-1, -1, -1]),
        ({"format": -1.0, "search": 1.0, "answer": 1.0}, [-1, -1, -1]),
        ({"search": 1.0, "query_repetition": 1.0}, [1, 1, 0]),
        ({"fetch": 1.0, "fetch_repetition": 1.0}, [0.5, 0, 0]),
        ({"fetch_failed": 1.0}, [-0.5, -0.5, 0]),
        ({"answer": 0.5}, [2.5, 2.5, 2.5]),
    ],
)
def test_turns(values, rewards):
    """As published, as released, and the outcome alone."""
    assert [rule.formula.total(values) for rule in (*RULES, OUTCOME)] == rewards
