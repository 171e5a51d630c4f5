"""Drafts of questions: checks that need no model, and near-duplicates of earlier questions."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.text import visible
from docagent_rl.documents.store import Document
from docagent_rl.lab.generate.config import EvidenceKind, QuestionDifficulty
from docagent_rl.lab.generate.plan import Slot
from docagent_rl.lab.generate.replies import WrittenQuestion
from docagent_rl.rewards.rule.refusals import says_unanswerable
from docagent_rl.rewards.text import squad_normalise
from docagent_rl.samples.leakage import THRESHOLD, alike_pairs, answer_words, question_words
from docagent_rl.samples.sample import EvidenceSource, Sample, Split
from docagent_rl.samples.validation import check_sample

_PAGE = re.compile(r"(?i)\b(?:pages?|pg\.?|p\.)\s*(?:no\.?|number)?\s*(\d{1,6})\b")
# words that make sense only to somebody who was shown the pages
_SHOWN = re.compile(
    r"(?i)\b(?:this|these|the (?:given|provided|shown|above|following)|shown|above) "
    r"(?:pages?|passages?|texts?|excerpts?|images?|pictures?|screenshots?|documents? pages?)\b"
    r"|\b(?:according to|in|from|on|by) the (?:passage|text|excerpt|image|picture|page)s?\b(?! \d)"
)
_LONGEST_QUESTION = 600
_LONGEST_ANSWER = 200


class DropStage(StrEnum):
    """The check at which a question, or a request for questions, was dropped; in the order in which
    checks apply.
    """

    NO_REPLY = "no reply"
    UNREADABLE = "unreadable reply"
    DECLINED = "no question written"
    SHAPE = "wrong shape"
    CLOSED_BOOK = "answered without document"
    UNCLEAR = "not clear"
    UNGROUNDED = "evidence does not answer"
    UNNEEDED = "evidence not needed"
    ELSEWHERE = "answered from other pages"
    ANSWERED = "has an answer after all"
    UNCHECKED = "check without reply"
    UNREAD = "check not readable"
    DUPLICATE = "near-duplicate"


OUTAGES = (DropStage.NO_REPLY, DropStage.UNCHECKED)
"""Stages at which there was no reply to keep, so that the same command asks again."""


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question as a model wrote it."""

    slot: Slot
    """The request that it answers."""
    index: int
    """Index among the questions of that request, from 0."""
    question: str
    """The question, on one line."""
    answer: str
    """The answer, on one line; empty if the document does not answer the question."""
    pages: tuple[int, ...]
    """Evidence pages, counted from 1, sorted and distinct."""

    @property
    def question_id(self) -> str:
        """The id of its sample."""
        return question_name(self.slot.doc_id, self.slot.kind.value, self.question)


@dataclass(frozen=True, slots=True)
class DroppedQuestion:
    """A question, or a whole request, that was dropped."""

    slot: Slot
    stage: DropStage
    reason: str
    draft: QuestionDraft | None = None
    """The question, if there is one."""


def question_name(doc_id: str, sort: str, question: str) -> str:
    """Return an id made from document and wording, so that runs with different seeds can be
    combined.
    """
    return f"{doc_id}-{sort}-{hashlib.sha256(question.encode('utf-8', 'replace')).hexdigest()[:12]}"


def build_sample(
    question_id: str,
    document: Document,
    question: str,
    answer: str,
    pages: tuple[int, ...],
    kind: EvidenceKind,
    *,
    source: EvidenceSource | None,
    difficulty: QuestionDifficulty,
    provenance: Mapping[str, Any],
    dataset: str,
    split: Split,
) -> Sample:
    """Return a question about a document as a sample; an empty answer marks it as unanswerable.

    The answer's format is in the words of MMLongBench-Doc. `source` is the kind of content that
    contains the answer.
    """
    number = answer.isascii() and answer.isdecimal()
    return check_sample(
        Sample(
            question_id=question_id,
            dataset=dataset,
            split=split,
            doc_id=document.doc_id,
            question=question,
            answers=(answer,) if answer else (),
            answer_format="None" if not answer else "Int" if number else "Str",
            evidence_pages=pages,
            evidence_sources=() if source is None else (source.value,),
            answerable=bool(answer),
            extra={
                "gold": answer or None,
                "num_pages": document.num_pages,
                "native_id": question_id,
                "row": None,
                "kind": kind.value,
                "difficulty": difficulty.value,
                "is_page_indexed": kind is EvidenceKind.PAGE_INDEX,
                "provenance": dict(provenance),
            },
        )
    )


def draft_of(slot: Slot, index: int, written: WrittenQuestion) -> QuestionDraft:
    """Return a question as a draft, with white space normalised and pages sorted."""
    question, answer = (" ".join(text.split()) for text in (written.question, written.answer))
    pages = tuple(sorted(set(written.pages)))
    if slot.kind is EvidenceKind.UNANSWERABLE:
        # its pages are not evidence, and a refusal is not an answer
        pages = ()
        answer = "" if says_unanswerable(answer) else answer
    return QuestionDraft(slot, index, question, answer, pages)


def shape_problem(draft: QuestionDraft) -> str | None:
    """Return why a question cannot be used as it is, or `None` if it can."""
    if not draft.question or len(draft.question) > _LONGEST_QUESTION:
        return "the question is empty or very long"
    if any(visible(text) != text for text in (draft.question, draft.answer)):
        return "it contains characters that cannot be printed"
    if _SHOWN.search(draft.question):
        return "the question refers to what only its writer was shown"
    if problem := _page_problem(draft):
        return problem
    if draft.slot.kind is EvidenceKind.UNANSWERABLE:
        return "an unanswerable question came with an answer" if draft.answer else None
    return _answer_problem(draft) or _evidence_problem(draft)


def _page_problem(draft: QuestionDraft) -> str | None:
    named = {int(found) for found in _PAGE.findall(draft.question)}
    if draft.slot.kind is EvidenceKind.PAGE_INDEX:
        own = set(draft.slot.pages)
        return None if named == own else "the question does not name exactly its own page"
    return "the question names a page" if named else None


def _answer_problem(draft: QuestionDraft) -> str | None:
    if not draft.answer or says_unanswerable(draft.answer):
        return "there is no answer"
    if len(draft.answer) > _LONGEST_ANSWER:
        return "the answer is too long"
    answer = squad_normalise(draft.answer)
    question = squad_normalise(draft.question)
    if (
        answer
        and f" {answer} " in f" {question} "
        and draft.slot.kind is not EvidenceKind.PAGE_INDEX
    ):
        return "the question contains its answer"
    return None


def _evidence_problem(draft: QuestionDraft) -> str | None:
    if not draft.pages:
        return "no evidence page is named"
    if not set(draft.pages) <= set(draft.slot.pages):
        return "an evidence page is named that was not shown"
    if draft.slot.kind is EvidenceKind.MULTI_PAGE and len(draft.pages) < 2:
        return "only one evidence page is named, but several were asked for"
    return None


def find_repeats(samples: Sequence[Sample], known: Sequence[Sample]) -> dict[int, str]:
    """Find questions that repeat a known question, or an earlier one that is kept.

    Questions about the same document are repeats if they consist of the same words (`data
    leakage`). If they differ in a number and have different answers, they are not: the revenue of
    one year and that of the next. Neither are an answerable and an unanswerable question in
    different words.

    Returns:
        The repeated question, by the index of the sample to be dropped.
    """
    places = {id(sample): place for place, sample in enumerate(samples)}
    pairs = (
        (places[id(first)], places[id(second)])
        for first, second, _ in alike_pairs(samples, samples, THRESHOLD)
        if _same(first, second)
    )
    found: dict[int, str] = {}
    for first, second, _ in alike_pairs(samples, known, THRESHOLD):
        if _same(first, second):
            found.setdefault(places[id(first)], second.question)
    for place, earlier in sorted(pairs):
        if earlier < place and earlier not in found:
            found.setdefault(place, samples[earlier].question)
    return found


def _same(first: Sample, second: Sample) -> bool:
    if first.doc_id != second.doc_id:
        return False
    apart = set(question_words(first.question)) ^ set(question_words(second.question))
    if first.answerable != second.answerable:
        return not apart
    numbers = any(character.isdigit() for word in apart for character in word)
    return not numbers or (bool(first.answers) and answer_words(first) == answer_words(second))
