import pytest

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.claims import QuestionHints, claims_only, is_idle, is_plain
from docagent_rl.rewards.rule.words import fold


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
    atoms, asked = read(text), QuestionHints(question)
    hits = {at for at, atom in enumerate(atoms) if atom.raw.casefold() in wanted.casefold().split()}
    assert claims_only(atoms, hits, asked) is only


@pytest.mark.parametrize(
    ("question", "repeated"),
    [
        ("When did the plant open on 3 April 2021?", ["plants", "opened", "3 April 2021"]),
        ("Did Paris or the plant open?", ["plants", "opened"]),
    ],
)
def test_what_a_question_said_answers_nothing_but_for_what_it_lets_choose(question, repeated):
    said = read(fold("plants opened late Paris 3 April 2021 4 April 2021"))
    assert [atom.raw for atom in said if is_idle(atom, QuestionHints(question))] == [
        fold(text) for text in repeated
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The company has employees", True),
        ("The company has no employees", False),
        ("more than", False),
        ("in Oslo", False),
        ("of 12", False),
        ("kg", False),
    ],
)
def test_plain_words_change_no_answer(text, plain):
    assert is_plain(read(text), QuestionHints("")) is plain
