from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.mmlongbench import AnswerFormat
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.rewards import EmptyEvidence, MMDocReward, PageTerm, correctness, page_f1

pages = st.sets(st.integers(1, 12), max_size=8)


def test_the_example_of_the_specification():
    """E = {12, 13, 31}, reads {12, 13} and {13, 40}."""
    right = correctness(["Port Authority of Gdansk"], "Port Authority in Gdansk", AnswerFormat.STR)
    rule = MMDocReward()
    read = rule.pages({12, 13, 40}, {12, 13, 31}, right)
    assert read == pytest.approx(2 / 3)
    assert right == pytest.approx(0.9167, abs=5e-5)
    assert rule.total(pages=read, correctness=right) == pytest.approx(1.5833, abs=5e-5)


@pytest.mark.parametrize(
    ("empty", "expected"), [(EmptyEvidence.ONE, 1), (EmptyEvidence.ZERO, 0), (EmptyEvidence.CORRECTNESS, 0.7)]
)
@pytest.mark.parametrize("read", [set(), {1, 2}])
def test_without_evidence(empty, expected, read):
    rule = MMDocReward(empty_evidence=empty)
    assert rule.pages(read, set(), 0.7) == expected
    if empty is EmptyEvidence.CORRECTNESS:
        assert rule.total(pages=rule.pages(read, set(), 0.7), correctness=0.7) == pytest.approx(1.4)


def test_page_f1():
    assert page_f1({1, 2, 3}, {2, 3, 4, 5}) == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert page_f1(set(), set()) == 0
    assert MMDocReward(page_term=PageTerm.F1).pages({1, 2}, {1}, 0.0) == pytest.approx(2 / 3)


@pytest.mark.parametrize("weights", [(-1.0, 1.0), (1.0, float("nan")), (float("inf"), 1.0)])
def test_impossible_weights(weights):
    with pytest.raises(ValueError, match="weights"):
        MMDocReward(*weights)


def test_weights():
    assert MMDocReward(pages_weight=0.0).total(pages=1.0, correctness=0.5) == 0.5
    assert MMDocReward(correctness_weight=0.0).total(pages=0.25, correctness=0.5) == 0.25


def test_correctness():
    assert correctness((), "Not answerable", AnswerFormat.STR) == 1
    assert correctness((), "42", AnswerFormat.INT) == 0
    assert correctness(("4,342", "4342"), "4342", AnswerFormat.INT) == 1
    assert correctness(("a", "b"), "['b', 'a']", AnswerFormat.LIST) == 1
    assert correctness(("blue",), NOT_ANSWERABLE, AnswerFormat.STR) == 0


@given(pages, pages.filter(bool))
def test_recall_against_a_slow_version(read, evidence):
    slow = sum(page in read for page in evidence) / len(evidence)
    assert MMDocReward().pages(read, evidence, 0.0) == slow


@given(pages, pages.filter(bool), st.integers(1, 12))
def test_reading_another_page_never_costs_recall(read, evidence, page):
    rule = MMDocReward()
    assert rule.pages(read | {page}, evidence, 0.0) >= rule.pages(read, evidence, 0.0)


@given(pages, pages.filter(bool))
def test_f1_against_precision_and_recall(read, evidence):
    hit = len(read & evidence)
    precision, recall = (hit / len(read) if read else 0), hit / len(evidence)
    slow = 2 * precision * recall / (precision + recall) if hit else 0
    assert page_f1(read, evidence) == pytest.approx(slow)


@given(pages, pages, st.floats(0, 1), st.sampled_from(list(EmptyEvidence)), st.sampled_from(list(PageTerm)))
def test_bounds(read, evidence, right, empty, term):
    rule = MMDocReward(empty_evidence=empty, page_term=term)
    read_term = rule.pages(read, evidence, right)
    assert 0 <= read_term <= 1
    assert 0 <= rule.total(pages=read_term, correctness=right) <= 2
