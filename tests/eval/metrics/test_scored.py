from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.scored import Mean, Scored, accuracy_f1, grouped, mean_of_each
from docagent_rl.rewards.text import NOT_ANSWERABLE

ANSWERS = st.sampled_from(["a", 18, NOT_ANSWERABLE, "not answerable"])


def test_accuracy_and_f1_of_the_specification():
    """Ten questions, of which three cannot be answered."""
    golds = ["a"] * 7 + [NOT_ANSWERABLE] * 3
    scores = [1, 1, 0.8, 0, 0, 1, 0, 1, 1, 1]
    said = ["a", "a", "a", NOT_ANSWERABLE, NOT_ANSWERABLE, "a", "b"] + [NOT_ANSWERABLE] * 3
    rows = [Scored(*row) for row in zip(golds, said, scores, strict=True)]
    assert accuracy_f1(rows) == pytest.approx((0.68, 0.6333), abs=5e-5)
    assert accuracy_f1([]) == (0, 0)
    assert accuracy_f1([Scored(NOT_ANSWERABLE, "not answerable", 1.0)]) == (1, 0)


@given(st.lists(st.builds(Scored, ANSWERS, ANSWERS, st.floats(0, 1)), max_size=12))
def test_accuracy_and_f1_against_a_slow_reading(results):
    sums, golds, said = 0.0, 0, 0
    for row in results:
        if row.answer != NOT_ANSWERABLE:
            sums, golds = sums + row.score, golds + 1
        said += row.pred != NOT_ANSWERABLE
    recall = sums / golds if golds else 0
    precision = sums / said if said else 0
    accuracy, f1 = accuracy_f1(results)
    mean = sum(row.score for row in results) / len(results) if results else 0
    assert accuracy == pytest.approx(mean)
    assert f1 == pytest.approx(2 * recall * precision / (recall + precision) if sums > 1e-300 else 0)


def test_means_leave_out_what_has_no_meaning_and_say_so():
    assert Mean.of([1.0, None, 0.0]) == Mean(0.5, 2)
    assert Mean.of([None]) == Mean.of([]) == Mean(None, 0)
    assert mean_of_each([{"a": 1.0, "b": None}, {"a": 0.0}]) == {"a": Mean(0.5, 2), "b": Mean(None, 0)}


def test_a_question_counts_in_each_of_its_groups_once():
    table = grouped([(["Table", "Chart"], 1.0), (["Chart", "Chart"], 0.0), ([], 1.0)])
    assert list(table.items()) == [("Chart", Mean(0.5, 2)), ("Table", Mean(1.0, 1))]
