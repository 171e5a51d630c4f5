from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.rule_judge import (
    NOT_ANSWERABLE,
    AnlsJudge,
    ExactMatchJudge,
    RecallJudge,
    RuleJudge,
)


def judged(references, prediction, judge=None):
    references = [references] if isinstance(references, str) else references
    return asyncio.run((judge or RuleJudge()).judge("?", references, prediction))


RIGHT = [
    ("Lisbon", "lisbon."),
    ("Lisbon", "The capital is Lisbon, on the Tagus"),
    ("1,234", "1234"),
    ("1,234", "$1,234.00"),
    ("12%", "about 12 percent"),
    ("12", "In 2020 it was twelve"),
    ("5 million", "5,000,000"),
    ("$5", "5 dollars"),
    ("three", "3"),
    ("Red Fox", "It is the red fox"),
    ("yes", "Yes, it did, with no delay"),
    ("no", "No."),
    (["blue", "green"], "it was green"),
    ("apples; pears", "Pears and apples"),
    (NOT_ANSWERABLE, "This cannot be determined from the pages"),
    (NOT_ANSWERABLE, "Not answerable"),
    (NOT_ANSWERABLE, "It can't be answered."),
    ("A", "a"),
    ("-5", "-5.0"),
    ("%", "%"),
]
WRONG = [
    ("Lisbon", "Porto"),
    ("Lisbon", ""),
    ("Lisbon", "   "),
    ("Lisbon", "not Lisbon"),
    ("1,234", "12,345"),
    ("12", "112"),
    ("12", "1 2 3 4 5 6 7 8 9 10 11 12"),
    ("3", "30"),
    ("5", "-5"),
    ("Red Fox", "fox red"),
    ("Red Fox", "red arctic fox"),
    ("yes", "no, yes"),
    ("no", "yes"),
    ("true", "false or true"),
    ("apples; pears", "apples"),
    ("Lisbon", "Lisbon " + "Porto Madrid Rome Paris " * 5),
    (NOT_ANSWERABLE, "Lisbon"),
    (NOT_ANSWERABLE, ""),
    ("Lisbon", "Not answerable"),
    ([], "anything"),
    ("%", "$"),
    ("?", ""),
]


@pytest.mark.parametrize(("references", "prediction"), RIGHT)
def test_right(references, prediction):
    assert judged(references, prediction) == 1.0


@pytest.mark.parametrize(("references", "prediction"), WRONG)
def test_wrong(references, prediction):
    assert judged(references, prediction) == 0.0


def test_the_cap_on_extra_tokens():
    exactly = "x " * 16 + "Lisbon"
    assert judged("Lisbon", exactly) == 1.0
    assert judged("Lisbon", "x " + exactly) == 0.0
    assert judged("Lisbon", exactly, RuleJudge(extra_tokens=3)) == 0.0


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text(reference, prediction):
    assert judged(reference, prediction) in (0.0, 1.0)
    if reference.strip():
        assert judged(reference, reference) == 1.0


def test_exact_match():
    judge = ExactMatchJudge()
    assert judged("The Red Fox", "red fox!", judge) == 1.0
    assert judged("Red Fox", "it is the red fox", judge) == 0.0
    assert judged("the", "the", judge) == 0.0


def test_anls():
    assert judged(["zzz", "Lake Ontario"], "Lake Ontaro", AnlsJudge()) == pytest.approx(11 / 12)
    assert judged("Lake Ontario", "Superior", AnlsJudge()) == 0.0
    assert judged("abcd", "abxy", AnlsJudge(threshold=0.6)) == 0.0
    assert judged([], "a", AnlsJudge()) == 0.0


def test_recall():
    assert judged(["one two", "three"], "two five", RecallJudge()) == 0.5


@pytest.mark.parametrize("judge", [RuleJudge(), ExactMatchJudge(), AnlsJudge(), RecallJudge()])
def test_rules_need_no_service(judge):
    asyncio.run(judge.check())
