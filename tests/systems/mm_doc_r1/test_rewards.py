import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.rewards.mmlongbench import AnswerFormat
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.rewards import (
    EmptyEvidence,
    MMDocReward,
    PageTerm,
    correctness,
    page_f1,
)

PAGES = st.sets(st.integers(1, 12), max_size=8)


def rule(**changes):
    return MMDocReward(**{"pages": 1.0, "correctness": 1.0, **changes})


def total(rule, pages, correctness):
    return rule.formula.total({"page_recall": pages, "correctness": correctness})


def test_the_example_of_the_specification():
    """The evidence is {12, 13, 31}; the agent reads {12, 13} and {13, 40}."""
    right = correctness(["Port Authority of Gdansk"], "Port Authority in Gdansk", AnswerFormat.STR)
    read = rule().page_score({12, 13, 40}, {12, 13, 31}, right)
    assert read == pytest.approx(2 / 3)
    assert right == pytest.approx(0.9167, abs=5e-5)
    assert total(rule(), read, right) == pytest.approx(1.5833, abs=5e-5)


@pytest.mark.parametrize(
    ("empty", "expected"),
    [(EmptyEvidence.ONE, 1), (EmptyEvidence.ZERO, 0), (EmptyEvidence.CORRECTNESS, 0.7)],
)
def test_without_evidence(empty, expected):
    assert rule(empty_evidence=empty).page_score({1, 2}, set(), 0.7) == expected


@settings(max_examples=50)
@given(PAGES, PAGES.filter(bool))
def test_page_terms_against_slow_versions(read, evidence):
    hit = sum(page in read for page in evidence)
    precision, recall = (hit / len(read) if read else 0), hit / len(evidence)
    slow = 2 * precision * recall / (precision + recall) if hit else 0
    published, other = (
        MMDocConfig.for_variant(reward={"page_term": term}).reward for term in PageTerm
    )
    assert published.page_score(read, evidence, 0.0) == recall
    assert page_f1(read, evidence) == pytest.approx(slow)
    assert other.page_score(read, evidence, 0.0) == pytest.approx(slow)
    assert page_f1(set(), set()) == 0


@pytest.mark.parametrize(
    ("references", "extracted", "kind", "score"),
    [
        ((), "Not answerable", AnswerFormat.STR, 1),
        ((), "42", AnswerFormat.INT, 0),
        (("4,342", "4342"), "4342", AnswerFormat.INT, 1),
        (("a", "b"), "['b', 'a']", AnswerFormat.LIST, 1),
        (("blue",), NOT_ANSWERABLE, AnswerFormat.STR, 0),
    ],
)
def test_correctness(references, extracted, kind, score):
    assert correctness(references, extracted, kind) == score
