from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import read_question
from docagent_rl.rewards.rule.likeness import forms, same_sentence, spans

NONE = read_question("")


@pytest.mark.parametrize(
    ("reference", "said", "places"),
    [
        ("Red Fox", "the Red Fox and the red fox", [(1, 3), (5, 7)]),
        ("Red Fox", "Red Arctic Fox", []),
        ("5 kg", "about 5000 g", [(1, 2)]),
        ("Appendix A", "Appendix B", []),
        ("1998", "12 March 1998", [(0, 1)]),
        # two readings, of which one is another day
        ("3 April 2021", "03/04/2021", []),
        ("3 April 2021", "2021-04-03", [(0, 1)]),
        ("12", "page 12", []),
        ("page 12", "page 12", [(0, 2)]),
        ("Roe, Jane", "Dr Jane Roe", [(1, 3)]),
        ("Dr. Roe", "Roe", [(0, 1)]),
    ],
)
def test_spans(reference, said, places):
    found = (list(spans(form, read(said), NONE)) for form in forms(read(reference), NONE))
    assert next(filter(None, found), []) == places


def test_words_of_the_question_may_be_left_out():
    question = read_question("Which appendix lists the suppliers?")
    assert [[atom.text for atom in form] for form in forms(read("Appendix A"), question)] == [
        ["appendix", "a"],
        ["a"],
    ]


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("increased raw material costs", True),
        ("costs of raw material increase", False),
        ("raw material costs", False),
        ("raw material costs did not increase", False),
        ("increased raw material costs, increased raw material costs", False),
        ("increased raw material costs of 5", False),
    ],
)
def test_a_sentence_in_other_forms(said, same):
    assert same_sentence(read("increase in raw material costs"), read(said), NONE) is same


def test_words_of_the_question_are_no_part_of_the_sentence():
    question = read_question("Why did margins fall?")
    wanted, said = read("higher raw costs"), read("Margins fell because of higher raw costs")
    assert not same_sentence(wanted, said, question)
    assert same_sentence(wanted, read("the fall of margins is higher raw costs"), question)
