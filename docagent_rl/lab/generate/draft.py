"""A question that is not a record yet, and what was wrong with those that never became one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.generate.plan import Slot


class Stage(StrEnum):
    """Where a question, or a request for some, was dropped; in the order of the funnel."""

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


OUTAGES = (Stage.NO_REPLY, Stage.UNCHECKED)
"""What the endpoint is to blame for: the same command asks again."""


def named_by(doc_id: str, sort: str, question: str) -> str:
    """A question's id: of the document and its words, so that runs with other seeds can be put together."""
    return f"{doc_id}-{sort}-{hashlib.sha256(question.encode('utf-8', 'replace')).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A question as a model wrote it.

    Args:
        slot: the request it came from.
        index: among the questions of that request, from 0.
        question: on one line.
        answer: on one line; empty when the document does not answer it.
        pages: evidence, 1-based, sorted and distinct.
    """

    slot: Slot
    index: int
    question: str
    answer: str
    pages: tuple[int, ...]

    @property
    def question_id(self) -> str:
        """Its name."""
        return named_by(self.slot.doc_id, self.slot.kind.value, self.question)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question, or a whole request, that did not pass.

    Args:
        slot: the request.
        stage: where.
        reason: why, in words.
        draft: the question, where there was one.
        unkept: there was no reply that could be kept; the next run asks again.
    """

    slot: Slot
    stage: Stage
    reason: str
    draft: Draft | None = None
    unkept: bool = False
