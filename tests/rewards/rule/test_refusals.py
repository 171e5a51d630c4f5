import pytest

from docagent_rl.rewards.rule.claims import QuestionHints
from docagent_rl.rewards.rule.refusals import declines, says_unanswerable

TEN_WORDS = "It is not answerable from the pages of this report"


def test_references_that_refuse():
    refusals = ["Not answerable", "N/A", "The problem is not answerable", "Unknown", TEN_WORDS]
    others = [
        "answerable",
        f"{TEN_WORDS} here",
        "The fee is not included in the price of the ticket for adults.",
    ]
    assert [says_unanswerable(text) for text in (*refusals, *others)] == [True] * 5 + [False] * 3


@pytest.mark.parametrize(
    ("text", "declined"),
    [
        ("The pages do not give the salary.", True),
        ("I don't know", True),
        ("I'm sorry, but the salary is not available in the document.", True),
        ("无法回答", True),
        ("The salary is not stated, but Roe earns most", False),
    ],
)
def test_declining(text, declined):
    assert declines(text, QuestionHints("What is the salary?")) is declined
