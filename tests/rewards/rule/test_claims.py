from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import claims_only, declines, is_refusal, polarity, read_question
from docagent_rl.rewards.rule.units import PERCENT, unit_of

TEN_WORDS = "It is not answerable from the pages of this report"


@pytest.mark.parametrize(
    ("wanted", "text", "question", "only"),
    [
        ("Paris", "It is Paris", "", True),
        ("Paris", "According to the report, the answer is Paris (page 12).", "", True),
        ("Paris", "Paris on page 12", "On which page is Paris?", False),
        ("Paris", "Paris Is Burning", "", False),
        ("Paris", "The office is in Paris", "", False),
        ("Paris", "The office is in Paris", "Where are the offices?", True),
        ("Paris", "Paris, London", "Is London larger?", True),
        ("Paris", "Paris, London", "Is Paris or London larger?", False),
        ("Paris value", "the answer is Paris value", "", True),
        ("Paris", "not Paris", "Which is not large?", False),
        ("Table 3", "Table 3 on page 12", "", False),
        # references that would otherwise stand beside others
        ("value", "the value is it", "", True),
        ("value", "value number", "", False),
        ("sales", "sales higher", "Are sales higher than costs?", False),
        ("none", "none of the value", "", False),
        ("within", "within.", "", True),
        ("within", "it is within", "", False),
    ],
)
def test_what_may_stand_beside_the_reference(wanted, text, question, only):
    atoms, asked = read(text), read_question(question)
    hits = {at for at, atom in enumerate(atoms) if atom.raw.casefold() in wanted.casefold().split()}
    assert claims_only(atoms, hits, asked) is only


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, with delay", True),
        ("Yes, with no delay", None),
        ("No, it was not paid", False),
        ("That is correct", True),
        ("That is not correct", False),
        ("It was paid", True),
        ("It was not paid", False),
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


def test_references_that_refuse():
    refusals = ["Not answerable", "N/A", "The problem is not answerable", "Unknown", TEN_WORDS]
    others = [
        "answerable",
        f"{TEN_WORDS} here",
        "The fee is not included in the price of the ticket for adults.",
    ]
    assert [is_refusal(text) for text in (*refusals, *others)] == [True] * 5 + [False] * 3


@pytest.mark.parametrize(
    ("text", "declined"),
    [
        ("The pages do not give the salary.", True),
        ("I don't know", True),
        ("The salary is not stated, but Roe earns most", False),
    ],
)
def test_declining(text, declined):
    assert declines(text, read_question("What is the salary?")) is declined


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


def test_a_question_is_repeated_by_its_dates_and_no_choice_by_its_names():
    asked = read_question("Did Paris or London open on 3 April 2021?")
    said = read("3 April 2021 open Paris 4 April 2021")
    assert [atom.raw for atom in said if asked.repeats(atom)] == ["3 April 2021", "open"]
