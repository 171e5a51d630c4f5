from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.polarity import polarity
from docagent_rl.rewards.rule.question import read_question


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, with no delay", True),
        ("No, it was not paid", False),
        ("There is no delay, so yes", True),
        ("yes and no", None),
        ("not yes", False),
        ("That is not correct", False),
        ("It was paid", True),
        ("It was not paid", False),
        ("Lisbon", None),
        ("yesterday", None),
    ],
)
def test_polarity(text, said):
    assert polarity(read(text), read_question("Was it paid?")) is said
