from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.likeness import acronyms, forms, same_sentence, spans, turned
from docagent_rl.rewards.rule.question import Question, read_question

NONE = Question()


@pytest.mark.parametrize(
    ("reference", "said", "places"),
    [
        ("Red Fox", "the Red Fox and the red fox", [(1, 3), (5, 7)]),
        ("Red Fox", "Red Arctic Fox", []),
        ("5 kg", "about 5000 g", [(1, 2)]),
        ("Appendix A", "Appendix B", []),
        ("1998", "12 March 1998", [(0, 1)]),
    ],
)
def test_spans(reference, said, places):
    assert list(spans(read(reference), read(said), NONE)) == places


def test_words_of_the_question_may_be_left_out():
    question = read_question("Which appendix lists the suppliers?")
    assert [[atom.text for atom in form] for form in forms(read("Appendix A"), question)] == [
        ["appendix", "a"],
        ["a"],
    ]


def test_initials_both_ways():
    assert list(acronyms(read("World Health Organization"), read("the WHO"))) == [(1, 2)]
    assert list(acronyms(read("WHO"), read("World Health Organization"))) == [(0, 3)]
    assert list(acronyms(read("World Health Organization"), read("WTO"))) == []


def test_last_name_first():
    assert list(turned(read("Jane Roe"), read("Roe, Jane"), NONE)) == [(0, 3)]
    assert list(turned(read("Jane Roe"), read("Roe Jane"), NONE)) == []


def test_a_sentence_in_other_forms():
    wanted = read("increase in raw material costs")
    assert same_sentence(wanted, read("increased raw material costs"), NONE)
    assert not same_sentence(wanted, read("raw material costs did not increase"), NONE)
