from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.agreement import Agreement, agreement

VERDICTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=12)


def test_the_textbook_example():
    """20 both yes, 5 and 10 split, 15 both no: 0.7 raw, 0.5 by chance, 0.4."""
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert agreement(first, second) == Agreement(0.7, pytest.approx(0.4), 50, 0)


def test_questions_that_one_did_not_judge_are_left_out_and_counted():
    assert agreement([1, None, 3], [1, 2, None]) == Agreement(1.0, None, 1, 2)
    assert agreement([None], [1]) == Agreement(None, None, 0, 1)
    with pytest.raises(ValueError, match=r"2\D+1"):
        agreement([1, 2], [1])


@given(VERDICTS)
def test_kappa_against_probabilities(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found, count = agreement(first, second), len(pairs)
    raw = sum(a == b for a, b in pairs) / count
    chance = sum(first.count(verdict) / count * (second.count(verdict) / count) for verdict in "abc")
    assert found == agreement(second, first)
    assert found.raw == raw
    if len({*first, *second}) == 1:
        assert found.kappa is None
    else:
        assert found.kappa == pytest.approx((raw - chance) / (1 - chance))
