from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.question import read_question
from docagent_rl.rewards.rule.refusals import declines, is_refusal


@pytest.mark.parametrize(
    "text", ["Not answerable", "N/A", "The problem is not answerable", "unanswerable", "Unknown"]
)
def test_references_that_refuse(text):
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    ["Lisbon", "answerable", "Canada", "The fee is not included in the price of the ticket for adults."],
)
def test_references_that_do_not(text):
    assert not is_refusal(text)


@pytest.mark.parametrize(
    ("text", "declined"),
    [
        ("The pages do not give the salary.", True),
        ("I don't know", True),
        ("I don't know, maybe 42", False),
        ("Not answerable. Lisbon.", False),
        ("Unknown: 12", False),
        ("The salary is not stated, but Roe earns most", False),
    ],
)
def test_declining(text, declined):
    assert declines(text, read_question("What is the salary?")) is declined
