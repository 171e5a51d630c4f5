from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.documents.contents import Heading
from docagent_rl.rewards.mmlongbench import FAIL_TO_ANSWER, extracted_answer
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.rule_roles import (
    INSUFFICIENT,
    answer_from,
    content_words,
    extract_answer,
    plan_search,
    read_pages,
)

QUESTION = "How many people does Velmora employ in the port?"


def short(question, answer):
    return extracted_answer(extract_answer(question, answer))


def test_content_words():
    assert content_words(QUESTION) == ["people", "velmora", "employ", "port"]
    assert content_words("The the of") == []


def test_a_plan_names_words_and_the_best_headings():
    contents = [
        Heading(1, "Offices", 2),
        Heading(2, "People of the port", 7),
        Heading(1, "Ferries at the port", 9),
    ]
    plan = plan_search(QUESTION, contents).splitlines()
    assert plan[0] == "(1) Search for: people, velmora, employ, port."
    assert plan[1] == '(2) Read page 7, where "People of the port" begins.'
    assert plan[2].startswith("(3) Read page 9")
    assert len(plan) == 4
    assert plan_search("?", []).startswith("(1) Search for: ?.")


def test_the_reader_gives_the_text():
    assert read_pages([(2, " a\nb "), (6, "")]) == "Page 2: a\nb\nPage 6: no text."


def test_answers_are_extracts():
    text = "Opening remarks about the port. Velmora employs 241 people in the\nport. Closing remarks."
    assert answer_from(QUESTION, [text]) == "Velmora employs 241 people in the port."
    table = "Unit People\nVelmora port people employed 241\nOslo 5"
    assert answer_from(QUESTION, ["Nothing here", table]) == "Velmora port people employed 241"


@pytest.mark.parametrize(
    "texts", [[], [""], ["Nothing of the kind."], ["Velmora is a town."], ["They employ people in the port."]]
)
def test_refusals(texts):
    """No text, too few words in common, or a name that occurs nowhere."""
    assert answer_from(QUESTION, texts) == INSUFFICIENT
    assert short(QUESTION, INSUFFICIENT) == NOT_ANSWERABLE


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (QUESTION, "Velmora employs 241 people in the port.", "241"),
        (QUESTION, "At the end of the year it was 1,445 people in all.", "1445"),
        ("Passengers in 2020?", "Passengers of Velmora in the year 2020 numbered 77.3 million.", "77.3"),
        ("In which town is the main office of Velmora?",
        "The main office of Velmora is in the town of Kantora.", "Kantora"),
        (QUESTION, "241.", "241"),
        (QUESTION, "", NOT_ANSWERABLE),
        (QUESTION, "This cannot be determined from the pages.", NOT_ANSWERABLE),
        (QUESTION, "I cannot answer the question due to lack of relevant data.", NOT_ANSWERABLE),
        (QUESTION, "I am unable to view the image.", FAIL_TO_ANSWER),
    ],
)  # fmt: skip
def test_short_answers(question, answer, expected):
    assert short(question, answer) == expected


def test_types():
    assert extract_answer("q", "241").endswith("Answer format: Integer")
    assert extract_answer("q", "2.5%").endswith("Answer format: Float")
    assert extract_answer("q", "blue").endswith("Answer format: String")


@given(st.text(max_size=120), st.lists(st.text(max_size=200), max_size=4))
def test_total_and_deterministic(question, texts):
    answer = answer_from(question, texts)
    assert answer == answer_from(question, texts)
    assert extracted_answer(extract_answer(question, answer)) is not None
    assert plan_search(question, [Heading(1, text, 1) for text in texts]).startswith("(1)")


def test_long_texts():
    """A reader that is not linear in the length would take minutes."""
    for text in ("word " * 60_000, "1," * 60_000, "a. " * 60_000, "A\n" * 60_000, "(" * 200_000):
        answer_from(QUESTION, [text])
        extract_answer(QUESTION, text)
