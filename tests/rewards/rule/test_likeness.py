from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import read_question
from docagent_rl.rewards.rule.likeness import forms, same_quantity, spans
from docagent_rl.rewards.rule.quantities import quantity_at

NONE = read_question("")


@pytest.mark.parametrize(
    ("reference", "said", "places"),
    [
        ("Red Fox", "the Red Fox and the red fox", [range(0, 2), range(3, 5)]),
        ("Red Fox", "Red Arctic Fox", []),
        ("5 kg", "about 5000 g", [range(1, 2)]),
        ("Appendix A", "Appendix B", []),
        ("1998", "12 March 1998", [range(0, 1)]),
        # two readings, of which one is another day
        ("3 April 2021", "03/04/2021", []),
        ("3 April 2021", "2021-04-03", [range(0, 1)]),
        ("12", "page 12", []),
        ("page 12", "page 12", [range(0, 2)]),
        ("03/04/2021", "3 April 2021", [range(0, 1)]),
        ("1998 kg", "12 March 1998", []),
        ("0", "5 May", []),
        ("1998-2000", "12 March 1998", []),
        ("page 3.0", "page 3", [range(0, 2)]),
        ("Section 3.2", "Section 3.2-3.4", []),
        ("Dr. Roe", "Roe", [range(0, 1)]),
    ],
)
def test_spans(reference, said, places):
    found = (spans(form, read(said), NONE) for form in forms(read(reference), NONE))
    assert next(filter(None, found), []) == places


def test_words_of_the_question_may_be_left_out():
    question = read_question("Which appendix lists the suppliers?")
    assert [[atom.text for atom in form] for form in forms(read("Appendix A"), question)] == [
        ["appendix", "a"],
        ["a"],
    ]


@pytest.mark.parametrize(
    ("wanted", "given", "question", "same"),
    [
        ("12", "$12", "", True),
        ("12", "13 kg", "How many kg?", False),
        ("12", "12 kg", "How many are there?", False),
        ("12", "12 kg", "Was it 3 tons or 2 dollars?", False),
        ("12", "12%", "", False),
        ("12 kg", "12", "", False),
        ("12 kg", "12", "What is it in kg?", True),
        ("10-30%", "0.1", "", False),
        ("10%", "0.1-0.3", "", False),
        ("45%", "0.45", "", True),
        ("100%", "1", "", False),
        ("150%", "1.5", "", False),
        ("10-20 kg", "10-20 km", "", False),
        ("10-20 kg", "10 kg", "", False),
        ("10-20 kg", "10000-20000 g", "", True),
    ],
)
def test_amounts_with_and_without_units(wanted, given, question, same):
    one, two = (quantity_at(text, 0)[0] for text in (wanted, given))
    assert same_quantity(one, two, read_question(question)) is same
