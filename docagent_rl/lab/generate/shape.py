"""What can be said about a question without asking anybody."""

from __future__ import annotations

import re

from docagent_rl.base.terminal import visible
from docagent_rl.lab.generate.config import Kind
from docagent_rl.lab.generate.draft import Draft
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.replies import WrittenQuestion
from docagent_rl.rewards.rule.claims import is_refusal
from docagent_rl.rewards.text import squad_normalise

_PAGE = re.compile(r"(?i)\b(?:pages?|pg\.?|p\.)\s*(?:no\.?|number)?\s*(\d{1,6})\b")
# words that only somebody understands who was shown the pages
_SHOWN = re.compile(
    r"(?i)\b(?:this|these|the (?:given|provided|shown|above|following)|shown|above) "
    r"(?:pages?|passages?|texts?|excerpts?|images?|pictures?|screenshots?|documents? pages?)\b"
    r"|\b(?:according to|in|from|on|by) the (?:passage|text|excerpt|image|picture|page)s?\b(?! \d)"
)
_LONGEST_QUESTION = 600
_SEVERAL = 2


def draft_of(slot: Slot, index: int, written: WrittenQuestion) -> Draft:
    """What a model wrote, blanks settled and pages in order."""
    pages = tuple(sorted(set(written.pages)))
    if slot.kind is Kind.UNANSWERABLE:
        # pages of a question without an answer are no evidence
        pages = ()
    return Draft(slot, index, " ".join(written.question.split()), " ".join(written.answer.split()), pages)


def shape_problem(draft: Draft, *, answer_chars: int) -> str | None:
    """Why a question cannot be used as it stands; `None` when it can.

    Args:
        draft: the question.
        answer_chars: length of an answer at most.
    """
    if not draft.question or len(draft.question) > _LONGEST_QUESTION:
        return "the question is empty or very long"
    if any(visible(text) != text for text in (draft.question, draft.answer)):
        return "it has characters that cannot be printed"
    if _SHOWN.search(draft.question):
        return "the question speaks of what only its writer was shown"
    if problem := _page_problem(draft):
        return problem
    if draft.slot.kind is Kind.UNANSWERABLE:
        return "a question without an answer came with one" if _says(draft.answer) else None
    return _answer_problem(draft, answer_chars) or _evidence_problem(draft)


def named_pages(question: str) -> list[int]:
    """Numbers of pages that a question names."""
    return [int(found) for found in _PAGE.findall(question)]


def _page_problem(draft: Draft) -> str | None:
    named = set(named_pages(draft.question))
    if draft.slot.kind is Kind.PAGE_INDEX:
        own = set(draft.slot.pages)
        return None if named == own else "the question does not name its page, or names another"
    return "the question names a page" if named else None


def _answer_problem(draft: Draft, answer_chars: int) -> str | None:
    if not _says(draft.answer):
        return "there is no answer"
    if len(draft.answer) > answer_chars:
        return "the answer is too long"
    answer, question = squad_normalise(draft.answer), squad_normalise(draft.question)
    if answer and f" {answer} " in f" {question} " and draft.slot.kind is not Kind.PAGE_INDEX:
        return "the question holds its answer"
    return None


def _evidence_problem(draft: Draft) -> str | None:
    if not draft.pages:
        return "no page of evidence is named"
    if not set(draft.pages) <= set(draft.slot.pages):
        return "evidence is named that was not shown"
    if draft.slot.kind is Kind.MULTI_PAGE and len(draft.pages) < _SEVERAL:
        return "one page of evidence is named, and several were asked for"
    return None


def _says(answer: str) -> bool:
    return bool(answer) and not is_refusal(answer)
