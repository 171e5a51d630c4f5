import pytest

from docagent_rl.rewards.rule.claims import QuestionHints
from docagent_rl.rewards.rule.verdicts import polarity


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, with delay", True),
        ("Yes, with no delay", None),
        ("No, it was not paid", False),
        ("That is correct", True),
        ("That is not correct", None),
        ("Lisbon is correct", None),
        ("it was", None),
        ("", None),
        ("No problem, it was paid", None),
        ("No. It was paid.", None),
        ("No, nobody paid", False),
        ("Yes, until 1990", None),
        ("Indeed not", None),
        ("The answer is no is wrong", None),
        ("是的", True),
        ("没有", False),
        ("Ja", True),
        ("Nein", False),
    ],
)
def test_polarity(text, said):
    assert polarity(text, QuestionHints("Was it paid?")) is said
