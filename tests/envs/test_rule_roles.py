import pytest

from docagent_rl.documents.contents import Heading
from docagent_rl.envs.rule_roles import INSUFFICIENT, answer_from, content_words, extract_answer, plan_search
from docagent_rl.rewards.mmlongbench import FAIL_TO_ANSWER, extracted_answer
from docagent_rl.rewards.text import NOT_ANSWERABLE

QUESTION = "How many people does Velmora employ in the port?"
TOWN = "In which town is the main office of Velmora?"


def test_content_words():
    assert content_words(QUESTION) == ["people", "velmora", "employ", "port"]
    assert content_words("The the of") == []


def test_a_plan_names_words_and_the_best_headings():
    titles = [("Offices", 2), ("People of the port", 7), ("Ferries at the port", 9)]
    plan = plan_search(QUESTION, [Heading(1, title, page) for title, page in titles]).splitlines()
    assert plan[0] == "(1) Search for: people, velmora, employ, port."
    assert plan[1] == '(2) Read page 7, where "People of the port" begins.'
    assert plan[2].startswith("(3) Read page 9")
    assert len(plan) == 4
    assert plan_search("?", []).startswith("(1) Search for: ?.")


@pytest.mark.parametrize(
    ("texts", "answer"),
    [
        (["Opening remarks about the port. Velmora employs 241 people in the\nport. Closing remarks."],
         "Velmora employs 241 people in the port."),
        (["Nothing here", "Unit People\nVelmora port people employed 241\nOslo 5"],
         "Velmora port people employed 241"),
        # no text, too few words in common, or a name that occurs nowhere
        ([], INSUFFICIENT),
        (["Velmora is a town."], INSUFFICIENT),
        (["They employ people in the port."], INSUFFICIENT),
    ],
)  # fmt: skip
def test_answers_are_extracts_or_refusals(texts, answer):
    assert answer_from(QUESTION, texts) == answer


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (QUESTION, "Velmora employs 241 people in the port.", "241"),
        ("Passengers in 2020?", "Passengers of Velmora in the year 2020 numbered 77.3 million.", "77.3"),
        (TOWN, "The main office of Velmora is in the town of Kantora.", "Kantora"),
        (QUESTION, INSUFFICIENT, NOT_ANSWERABLE),
        (QUESTION, "I cannot answer the question due to lack of relevant data.", NOT_ANSWERABLE),
        (QUESTION, "I am unable to view the image.", FAIL_TO_ANSWER),
    ],
)
def test_short_answers(question, answer, expected):
    assert extracted_answer(extract_answer(question, answer)) == expected


@pytest.mark.parametrize(("answer", "kind"), [("241", "Integer"), ("2.5%", "Float"), ("blue", "String")])
def test_types(answer, kind):
    assert extract_answer("q", answer).endswith(f"Answer format: {kind}")


@pytest.mark.parametrize("piece", ["word ", "1,", "((("])
def test_long_texts(piece):
    """A reader that is not linear in the length would take minutes."""
    assert answer_from(QUESTION, [piece * 10_000]) == INSUFFICIENT
    assert extract_answer(QUESTION, piece * 10_000)
