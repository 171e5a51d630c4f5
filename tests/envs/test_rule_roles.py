import pytest

from docagent_rl.documents.contents import Heading
from docagent_rl.envs.rule_roles import (
    INSUFFICIENT,
    answer_from,
    content_words,
    extract_answer,
    plan_search,
    read_pages,
)
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
        (["Opening remarks about the port. Velmora employs 241 people in the\nport. Closing "
          "remarks."],
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
        (
            "Passengers in 2020?",
            "Passengers of Velmora in the year 2020 numbered 77.3 million.",
            "77.3",
        ),
        (TOWN, "The main office of Velmora is in the town of Kantora.", "Kantora"),
        (QUESTION, INSUFFICIENT, NOT_ANSWERABLE),
        (QUESTION, "I cannot answer the question due to lack of relevant data.", NOT_ANSWERABLE),
        (QUESTION, "I am unable to view the image.", FAIL_TO_ANSWER),
    ],
)
def test_short_answers(question, answer, expected):
    assert extracted_answer(extract_answer(question, answer)) == expected


@pytest.mark.parametrize(
    ("answer", "kind"), [("241", "Integer"), ("2.5%", "Float"), ("blue", "String")]
)
def test_types(answer, kind):
    assert extract_answer("q", answer).endswith(f"Answer format: {kind}")


@pytest.mark.parametrize("piece", ["word ", "1,", "((("])
def test_long_texts(piece):
    """The rules take linear time; otherwise these texts would take minutes."""
    assert answer_from(QUESTION, [piece * 10_000]) == INSUFFICIENT
    assert extract_answer(QUESTION, piece * 10_000)


def test_a_plan_names_six_words_and_three_headings():
    words = ["alder", "birch", "cedar", "dogwood", "elder", "firs", "gorse"]
    titles = ["Gorse", "Alder", "Birch and cedar", "Dogwood", "Hazel", "Elder"]
    contents = [Heading(1, title, page) for page, title in enumerate(titles, start=1)]
    plan = plan_search(f"Where are {' '.join(words)}?", contents).splitlines()
    assert plan[0] == "(1) Search for: alder, birch, cedar, dogwood, elder, firs."
    # most words first; of those with as many, in the order of the document
    assert [line.split(",")[0] for line in plan[1:4]] == [
        "(2) Read page 3",
        "(3) Read page 1",
        "(4) Read page 2",
    ]
    assert plan[4].startswith("(5) Read the pages that the search finds")
    assert len(plan) == 5


def test_half_of_the_question_s_words_are_enough():
    question = "How fast are ferries between islands during winter?"
    assert content_words(question) == ["fast", "ferries", "between", "islands", "during", "winter"]
    assert answer_from(question, ["Winter ferries were fast."]) == "Winter ferries were fast."
    assert answer_from(question, ["Winter ferries were slow."]) == INSUFFICIENT
    assert answer_from("Who is it?", ["It is nobody."]) == INSUFFICIENT
    assert answer_from("", ["It is nobody.", "It is."]) == INSUFFICIENT


def test_words_are_alike_by_their_first_five_letters():
    assert answer_from("How many employees?", ["They employ five."]) == "They employ five."
    assert answer_from("How many empires?", ["They employ five."]) == INSUFFICIENT


def test_the_shortest_of_the_likest_and_then_the_first():
    question = "Which ferries sail?"
    assert answer_from(question, ["Some ferries sail slowly. Ferries sail."]) == "Ferries sail."
    assert answer_from(question, ["Ferries sail A. Ferries sail B."]) == "Ferries sail A."
    # a sentence may go over two lines
    assert answer_from(question, ["Ferries\nsail.", "Sail ferries!"]) == "Ferries sail."
    assert answer_from(question, ["", "Ferries sail"]) == "Ferries sail"


def test_names_of_the_question_have_to_occur():
    texts = ["Ferries sail to Oslo every day."]
    assert answer_from("Ferries sail to Oslo?", texts) == texts[0]
    assert (
        answer_from("Velmora ferries sail when?", texts) == texts[0]
    )  # the first word is always capitalised
    for question in ("Do ferries sail to Kantora?", "Does Kantora let ferries sail?"):
        assert answer_from(question, texts) == INSUFFICIENT
    assert answer_from("Where is Oslo?", ["Oslo."]) == "Oslo."


def test_a_long_sentence_is_cut():
    found = answer_from("Which ferries sail?", ["Ferries sail " + "on " * 1000])
    assert found == ("Ferries sail " + "on " * 1000)[:600]


def test_pages_are_read_under_their_numbers():
    assert read_pages([(3, " Ferries\n"), (7, " \n")]) == "Page 3: Ferries\nPage 7: no text."
    assert read_pages([]) == ""


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        # up to six words are taken whole
        ("q", "They are one two three four.", "They are one two three four/String"),
        ("q", "They count one and two, 1,204 ferries.", "1204/Integer"),
        ("q", "1,204", "1,204/Integer"),
        (
            "Of 1,204 ferries, how many?",
            "Of the 1,204 ferries there are some 12 % large.",
            "12 %/Float",
        ),
        ("How large are the ferries here?", "The ferries here are large, large, large.", None),
        (
            "Ferries?",
            "The ferries are those at the northern quay of the port.",
            "northern quay/String",
        ),
        ("q", "It lost $ -5.50 of all that it had there.", "-5.50/Float"),
        ("q", " ", f"{NOT_ANSWERABLE}/String"),
        ("q", "It is NOT mentioned.", f"{NOT_ANSWERABLE}/String"),
        ("q", "They could not be opened.", f"{FAIL_TO_ANSWER}/String"),
        ("q", "Could not open the file.", f"{FAIL_TO_ANSWER}/String"),
    ],
)
def test_short_answers_and_their_types(question, answer, expected):
    found = extract_answer(question, answer)
    short = extracted_answer(found)
    kind = found.rpartition("Answer format: ")[2]
    assert f"{short}/{kind}" == (expected or f"{answer}/String")
