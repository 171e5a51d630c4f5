from __future__ import annotations

from docagent_rl.rewards.rule.atoms import read
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


def test_other_forms_of_its_words_are_repeated():
    question = read_question("When did the plant open?")
    assert [question.repeats(atom) for atom in read("plants opened late")] == [True, True, False]


def test_no_question():
    assert not any(value for text in ("", "?", "12 %?") for value in vars(read_question(text)).values())
