from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.polarity import polarity
from docagent_rl.rewards.rule.question import read_question


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, with delay", True),
        ("Yes, with no delay", None),
        ("No, it was not paid", False),
        ("That is correct", True),
        ("yes and no", None),
        ("not yes", False),
        ("That is not correct", False),
        ("It was paid", True),
        ("It was not paid", False),
        ("Lisbon", None),
        ("Lisbon is correct", None),
        ("it was", None),
        ("", None),
    ],
)
def test_polarity(text, said):
    assert polarity(read(text), read_question("Was it paid?")) is said


@pytest.mark.parametrize(
    "question", ["Who paid it?", "Was it paid or lost?", "Was it not paid?", "Where was it paid?"]
)
def test_words_of_other_questions_affirm_nothing(question):
    assert polarity(read("It was paid"), read_question(question)) is None
