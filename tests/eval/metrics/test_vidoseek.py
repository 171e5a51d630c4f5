from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.scored import Mean
from docagent_rl.eval.metrics.vidoseek import Grades, grades, page_id, parse_score_judge, retrieval_table


@pytest.mark.parametrize(
    ("reply", "grade"), [("4.0\nThe answer is right", 4), ("10", 1), ("-4", 4), ("five", None)]
)
def test_replies_of_judges(reply, grade):
    assert parse_score_judge(reply) == grade


@given(st.text(max_size=20) | st.text("0459 a-\u0664\u00b2", max_size=8))
def test_the_grade_is_the_first_digit_by_looking_at_every_letter(reply):
    digits = [letter for letter in reply if letter.isdecimal()]
    assert parse_score_judge(reply) == (int(digits[0]) if digits else None)


def test_a_judge_that_failed_counts_zero_and_is_counted():
    assert grades([5, 4, 3, None]) == Grades(mean=3.0, passing=0.5, count=4, failures=1)
    assert grades([]) == Grades(0.0, 0.0, 0, 0)


@pytest.mark.parametrize(
    ("file", "page", "expected"),
    [("deck.pdf", 3, "deck_3"), ("2303.08559v2.pdf", 1, "2303.08559v2_1"), ("a/b.c.PDF", 2, "b.c_2"),
     ("1912.01214", 4, "1912.01214_4"), ("a_b.jpg", 5, "a_b_5")],
)  # fmt: skip
def test_page_ids_keep_dots(file, page, expected):
    assert page_id(file, page) == expected


def test_each_question_has_its_own_list_length_and_one_without_gold_is_left_out():
    table = retrieval_table([(["a_1"], ["a_2"]), (["b_1"], ["b_7", "b_1"]), ([], ["c_1"])])
    assert table["hit@all"] == Mean(0.5, 2)
    assert table["recall@1"] == Mean(0.0, 2)
    assert table["mrr@5"] == Mean(0.25, 2)
    assert len(table) == 16
