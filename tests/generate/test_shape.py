from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.generate.config import Difficulty, Kind
from docagent_rl.generate.plan import Slot
from docagent_rl.generate.replies import WrittenQuestion
from docagent_rl.generate.shape import draft_of, named_pages, shape_problem

WORDS = st.lists(
    st.sampled_from(
        ["what", "is", "the", "page", "pages", "3", "5", "total", "of", "Kantora", "this", "text", "teal", ""]
    ),
    max_size=8,
).map(" ".join)


def slot(kind=Kind.SINGLE_PAGE, pages=(3,)) -> Slot:
    return Slot("K", kind, Difficulty.EASY, 0, pages, 1)


def problem(kind, question, answer="teal", pages=(3,), shown=(3,)) -> str | None:
    written = WrittenQuestion(question=question, answer=answer, pages=list(pages))
    return shape_problem(draft_of(slot(kind, shown), 0, written), answer_chars=40)


@given(
    st.sampled_from(Kind),
    WORDS,
    WORDS,
    st.lists(st.integers(1, 6), max_size=4),
    st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True),
)
def test_what_passes_has_all_that_a_question_needs(kind, question, answer, pages, shown):
    draft = draft_of(
        slot(kind, tuple(sorted(shown))), 0, WrittenQuestion(question=question, answer=answer, pages=pages)
    )
    if shape_problem(draft, answer_chars=40) is not None:
        return
    assert draft.question.strip() == draft.question != ""
    if kind is Kind.UNANSWERABLE:
        assert (draft.answer, draft.pages) == ("", ())
        return
    assert draft.answer
    assert len(draft.answer) <= 40
    assert draft.pages == tuple(sorted(set(draft.pages)))
    assert set() < set(draft.pages) <= set(shown)
    assert len(draft.pages) >= (2 if kind is Kind.MULTI_PAGE else 1)
    assert set(named_pages(draft.question)) == (set(shown) if kind is Kind.PAGE_INDEX else set())


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "What does this page say?"},
        {"question": "What is on page 3?"},
        {"question": "Which line is drawn in teal?"},
        {"answer": "  "},
        {"answer": "not answerable"},
        {"answer": "x" * 41},
        {"pages": ()},
        {"pages": (4,)},
        {"question": " "},
        {"question": "Who\x1b[2J came?"},
        {"answer": "A\u202eda"},
    ],
)
def test_what_is_wrong_is_refused(changes):
    assert problem(Kind.SINGLE_PAGE, **{"question": "Who came?", **changes})
    assert problem(Kind.SINGLE_PAGE, "Who came?") is None


@pytest.mark.parametrize("question", ["What is the date?", "What stands on page 4?"])
def test_a_page_question_names_its_page(question):
    assert problem(Kind.PAGE_INDEX, question)
    assert problem(Kind.PAGE_INDEX, "What is the date on page 3?") is None


def test_several_pages_are_asked_of_several_pages():
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(3,), shown=(3, 5))
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(5, 3), shown=(3, 5)) is None


def test_a_question_without_answer_has_none():
    assert problem(Kind.UNANSWERABLE, "Who came?", answer="Ada")
    assert problem(Kind.UNANSWERABLE, "Who came?", answer="not answerable") is None
