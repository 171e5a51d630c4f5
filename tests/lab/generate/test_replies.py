import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.generate.config import EvidenceKind, QuestionDifficulty
from docagent_rl.lab.generate.draft import draft_of, shape_problem
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.replies import (
    PageAnswer,
    UnreadableError,
    Written,
    WrittenQuestion,
    read_json_reply,
)

ANSWERS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.booleans(), ANSWERS | st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_what_was_written_is_read(answerable, answer):
    text = json.dumps({"answerable": answerable, "answer": answer})
    said = "" if answer is None else str(answer)
    for reply in (text, f"```json\n{text}\n```", f"<think>hm</think>\n{text}"):
        if "\u200b" not in said and "```" not in said and "</think>" not in said:
            found = read_json_reply(reply, PageAnswer)
            assert (found.answerable, found.answer) == (answerable, said)


@pytest.mark.parametrize(
    "text",
    [
        *(
            f'{{"questions": [{{"question": "q", "pages": [{page}]}}]}}'
            for page in ("0", "1.5", '"1"', "true")
        ),
        "",
        "<think>never ends",
        '{"answerable": "true", "answer": "x"}',
        '{"answer": "x"}',
        '{"answerable": true, "answer": true}',
        '{"answerable": true, "answer": ["x"]}',
        '[{"answerable": true}]',
        '{"answerable": true, "answer": "x"} and so on',
        '```json\n{"answerable": true}\n```\n```json\n{"answerable": false}\n```',
        '{"answerable": true, "answer": "\\ud800"}',
        "[" * 90_000,
        '{"answerable": true, "answer": "' + "x" * 200_000 + '"}',
    ],
)
def test_what_is_anything_else_does_not_count(text):
    with pytest.raises(UnreadableError) as caught:
        read_json_reply(text, Written if "questions" in text else PageAnswer)
    assert len(str(caught.value)) < 400


def slot(kind=EvidenceKind.SINGLE_PAGE, pages=(3,)) -> Slot:
    return Slot("K", kind, QuestionDifficulty.EASY, 0, pages, 1)


def problem(kind, question, answer="teal", pages=(3,), shown=(3,)) -> str | None:
    written = WrittenQuestion(question=question, answer=answer, pages=list(pages))
    return shape_problem(draft_of(slot(kind, shown), 0, written))


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"question": f"What does {words}?"}
            for words in ("this page say", "page 3 say", "teal mean")
        ),
        *({"question": text} for text in (" ", "Who\x1b[2J came?")),
        *({"answer": text} for text in ("  ", "not answerable", "x" * 201, "A\u202eda")),
        *({"pages": pages} for pages in ((), (4,))),
    ],
)
def test_what_is_wrong_is_refused(changes):
    assert problem(EvidenceKind.SINGLE_PAGE, **{"question": "Who came?", **changes})
    assert problem(EvidenceKind.SINGLE_PAGE, "Who came?") is None


def test_each_kind_has_its_own_shape():
    assert problem(EvidenceKind.PAGE_INDEX, "What stands on page 4?")
    assert problem(EvidenceKind.PAGE_INDEX, "What is the date on page 3?") is None
    assert problem(EvidenceKind.MULTI_PAGE, "Which is larger?", pages=(3,), shown=(3, 5))
    assert problem(EvidenceKind.MULTI_PAGE, "Which is larger?", pages=(5, 3), shown=(3, 5)) is None
    refused = WrittenQuestion(question="Who came?", answer="Not answerable", pages=[3])
    draft = draft_of(slot(EvidenceKind.UNANSWERABLE), 0, refused)
    assert (draft.answer, shape_problem(draft)) == ("", None)
