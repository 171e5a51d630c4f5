from __future__ import annotations

from docagent_rl.rewards.rule.question import read_question
from docagent_rl.rewards.rule.units import PERCENT, unit_of


def test_what_a_question_says():
    question = read_question("How many hours of training did Acme offer on page 12 in 2020?")
    assert question.counts
    assert unit_of("hours") in question.units
    assert question.values == {12, 2020}
    assert "acme" in question.names
    assert "acme" not in question.nouns
    assert not question.is_polar


def test_choices_polar_questions_and_shares():
    assert read_question("Is it in Paris or London?").is_choice
    assert read_question("Did revenue rise?").is_polar
    assert PERCENT in read_question("What share of staff agreed?").units
    assert read_question("On which page is it?").asked >= {"page"}


def test_no_question():
    assert not read_question("?").is_known
    assert not read_question("").is_known
