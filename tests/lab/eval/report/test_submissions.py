"""Files for the servers of DUDE and MP-DocVQA, as their scorers read them."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.eval.report.submissions import submissions
from tests.lab.eval.scoring.trajectories import answered, masked, question


def dude(number, **changes):
    extra = {"native_id": f"doc_{number}", **changes.pop("extra", {})}
    return question(number, dataset="dude", answer_format="extractive", extra=extra, **changes)


def entries(found, name):
    return json.loads(found[name].text)


def test_dude_takes_lists_of_answers_and_an_empty_one_for_a_refusal():
    hidden = {"answerable": None, "answers": ("(the answer is withheld)",)}
    played = [
        answered(dude(0), "Lake;  Ontario"),
        answered(dude(1, extra={"hidden": True}, **hidden), "Lake Ontario; Lake  Erie\n"),
        answered(dude(2), "The document does not say."),
        masked(dude(3)),
        answered(question(4), "of another benchmark"),
        answered(dude(0), "a second trajectory", number=1),
    ]
    found = submissions(played)
    assert list(found) == ["submission_dude.json"]
    assert entries(found, "submission_dude.json") == [
        {"questionId": "doc_0", "answers": ["Lake; Ontario"], "answers_abstain": False},
        {"questionId": "doc_1", "answers": ["Lake Ontario", "Lake Erie"], "answers_abstain": False},
        {"questionId": "doc_2", "answers": [""], "answers_abstain": True},
        {"questionId": "doc_3", "answers": [""], "answers_abstain": True},
    ]
    assert (found["submission_dude.json"].entries, found["submission_dude.json"].expected) == (
        4,
        11402,
    )


def test_mp_docvqa_takes_numbers_and_pages_from_0():
    def asked(number, native):
        return question(number, dataset="mpdocvqa", extra={"native_id": native})

    played = [answered(asked(0, 49153), "7  pm", pages=(3, 5)), masked(asked(1, "49154"))]
    found = submissions(played)
    assert entries(found, "submission_mp_docvqa.json") == [
        {"questionId": 49153, "answer": "7 pm", "answer_page": 4},
        {"questionId": 49154, "answer": ""},
    ]


def test_other_benchmarks_have_no_server_and_an_entry_needs_an_id():
    with pytest.raises(UserError, match="dude"):
        submissions([answered(question(0), "Lake Ontario")])
    with pytest.raises(UserError, match="native_id"):
        submissions([answered(question(0, dataset="dude"), "Lake Ontario")])
