from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.lab.generate import replies
from docagent_rl.lab.generate.config import Difficulty, Kind
from docagent_rl.lab.generate.draft import draft_of, named_pages, shape_problem
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.replies import Answered, UnreadableError, Written, WrittenQuestion, read_reply

SHAPES = (Written, Answered, replies.Guessed, replies.Cleared)
NAMES = st.sampled_from(["questions", "question", "answer", "answerable", "pages", "clear"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.text(max_size=200) | JSON.map(json.dumps), st.sampled_from(SHAPES))
def test_a_reply_is_of_the_shape_or_unreadable(text, shape):
    try:
        found = read_reply(text, shape)
    except UnreadableError:
        return
    assert shape.model_validate(found.model_dump()) == found


ANSWERS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60)


@given(st.booleans(), ANSWERS | st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_what_was_written_is_read(answerable, answer):
    text = json.dumps({"answerable": answerable, "answer": answer})
    said = "" if answer is None else str(answer)
    for reply in (text, f"```json\n{text}\n```", f"<think>hm</think>\n{text}"):
        if "\u200b" not in said and "```" not in said and "</think>" not in said:
            found = read_reply(reply, Answered)
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
        read_reply(text, Written if "questions" in text else Answered)
    assert len(str(caught.value)) < 400


VOCABULARY = ["what", "is", "the", "page", "pages", "3", "5", "total", "of", "this", "text", "teal", ""]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)
PAGES = st.lists(st.integers(1, 6), max_size=4)


def slot(kind=Kind.SINGLE_PAGE, pages=(3,)) -> Slot:
    return Slot("K", kind, Difficulty.EASY, 0, pages, 1)


def problem(kind, question, answer="teal", pages=(3,), shown=(3,)) -> str | None:
    written = WrittenQuestion(question=question, answer=answer, pages=list(pages))
    return shape_problem(draft_of(slot(kind, shown), 0, written))


@given(st.sampled_from(Kind), WORDS, WORDS, PAGES, st.sets(st.integers(1, 6), min_size=1, max_size=3))
def test_what_passes_has_all_that_a_question_needs(kind, question, answer, pages, shown):
    written = WrittenQuestion(question=question, answer=answer, pages=pages)
    draft = draft_of(slot(kind, tuple(sorted(shown))), 0, written)
    if shape_problem(draft) is not None:
        return
    assert draft.question.strip() == draft.question != ""
    if kind is Kind.UNANSWERABLE:
        assert (draft.answer, draft.pages) == ("", ())
        return
    assert draft.answer
    assert len(draft.answer) <= 200
    assert draft.pages == tuple(sorted(set(draft.pages)))
    assert set() < set(draft.pages) <= shown
    assert len(draft.pages) >= (2 if kind is Kind.MULTI_PAGE else 1)
    assert set(named_pages(draft.question)) == (shown if kind is Kind.PAGE_INDEX else set())


@pytest.mark.parametrize(
    "changes",
    [
        *({"question": f"What does {words}?"} for words in ("this page say", "page 3 say", "teal mean")),
        *({"question": text} for text in (" ", "Who\x1b[2J came?")),
        *({"answer": text} for text in ("  ", "not answerable", "x" * 201, "A\u202eda")),
        *({"pages": pages} for pages in ((), (4,))),
    ],
)
def test_what_is_wrong_is_refused(changes):
    assert problem(Kind.SINGLE_PAGE, **{"question": "Who came?", **changes})
    assert problem(Kind.SINGLE_PAGE, "Who came?") is None


def test_each_kind_has_its_own_shape():
    assert problem(Kind.PAGE_INDEX, "What stands on page 4?")
    assert problem(Kind.PAGE_INDEX, "What is the date on page 3?") is None
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(3,), shown=(3, 5))
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(5, 3), shown=(3, 5)) is None
    refused = WrittenQuestion(question="Who came?", answer="Not answerable", pages=[3])
    draft = draft_of(slot(Kind.UNANSWERABLE), 0, refused)
    assert (draft.answer, shape_problem(draft)) == ("", None)
