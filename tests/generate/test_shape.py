from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.generate.config import Difficulty, Kind
from docagent_rl.generate.plan import Slot
from docagent_rl.generate.replies import WrittenQuestion
from docagent_rl.generate.shape import draft_of, named_pages, shape_problem

VOCABULARY = ["what", "is", "the", "page", "pages", "3", "5", "total", "of", "this", "text", "teal", ""]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)
PAGES = st.lists(st.integers(1, 6), max_size=4)


def slot(kind=Kind.SINGLE_PAGE, pages=(3,)) -> Slot:
    return Slot("K", kind, Difficulty.EASY, 0, pages, 1)


def problem(kind, question, answer="teal", pages=(3,), shown=(3,)) -> str | None:
    written = WrittenQuestion(question=question, answer=answer, pages=list(pages))
    return shape_problem(draft_of(slot(kind, shown), 0, written), answer_chars=40)


@given(st.sampled_from(Kind), WORDS, WORDS, PAGES, st.sets(st.integers(1, 6), min_size=1, max_size=3))
def test_what_passes_has_all_that_a_question_needs(kind, question, answer, pages, shown):
    written = WrittenQuestion(question=question, answer=answer, pages=pages)
    draft = draft_of(slot(kind, tuple(sorted(shown))), 0, written)
    if shape_problem(draft, answer_chars=40) is not None:
        return
    assert draft.question.strip() == draft.question != ""
    if kind is Kind.UNANSWERABLE:
        assert (draft.answer, draft.pages) == ("", ())
        return
    assert draft.answer
    assert len(draft.answer) <= 40
    assert draft.pages == tuple(sorted(set(draft.pages)))
    assert set() < set(draft.pages) <= shown
    assert len(draft.pages) >= (2 if kind is Kind.MULTI_PAGE else 1)
    assert set(named_pages(draft.question)) == (shown if kind is Kind.PAGE_INDEX else set())


@pytest.mark.parametrize(
    "changes",
    [
        *({"question": f"What does {words}?"} for words in ("this page say", "page 3 say", "teal mean")),
        *({"question": text} for text in (" ", "Who\x1b[2J came?")),
        *({"answer": text} for text in ("  ", "not answerable", "x" * 41, "A\u202eda")),
        *({"pages": pages} for pages in ((), (4,))),
    ],
)
def test_what_is_wrong_is_refused(changes):
    assert problem(Kind.SINGLE_PAGE, **{"question": "Who came?", **changes})
    assert problem(Kind.SINGLE_PAGE, "Who came?") is None


def test_each_kind_has_its_own_shape():
    assert problem(Kind.PAGE_INDEX, "What is the date?")
    assert problem(Kind.PAGE_INDEX, "What stands on page 4?")
    assert problem(Kind.PAGE_INDEX, "What is the date on page 3?") is None
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(3,), shown=(3, 5))
    assert problem(Kind.MULTI_PAGE, "Which is larger?", pages=(5, 3), shown=(3, 5)) is None
    assert problem(Kind.UNANSWERABLE, "Who came?", answer="Ada")
    assert problem(Kind.UNANSWERABLE, "Who came?", answer="not answerable") is None
