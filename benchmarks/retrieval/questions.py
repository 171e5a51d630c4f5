"""Read the hand-checked questions about real documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.samples.questions import scan_questions
from docagent_rl.samples.sample import Sample
from tools.documents.manifest import Manifest

QUESTIONS = Path(__file__).with_name("questions.jsonl")


class Kind(StrEnum):
    """The part of a page that answers a question."""

    TEXT = "text"
    TABLE = "table"
    CHART = "chart"
    FIGURE = "figure"


@dataclass(frozen=True, slots=True)
class Question:
    """A question whose evidence is known.

    Args:
        text: the question itself.
        answers: right answers, each of which is sufficient.
        kind: the part of the page that holds the answer.
        evidence: all pages that hold the answer or a part of it.
    """

    text: str
    answers: tuple[str, ...]
    kind: Kind
    evidence: tuple[PageRef, ...]

    @property
    def doc_id(self) -> str:
        """The id of the document that the question is about."""
        return self.evidence[0].doc_id


def read(path: Path = QUESTIONS) -> list[Question]:
    """Read the questions.

    Raises:
        UserError: the file is missing, or has errors, each of which is named with its line.
    """
    found = scan_questions(path)
    problems, questions = list(found.problems), []
    for line, sample in found.samples:
        try:
            questions.append(_question(sample))
        except UserError as error:
            problems.append(f"{path}:{line}: {error}")
    if problems:
        raise UserError("\n".join(problems))
    return questions


def about_scans(questions: Sequence[Question], manifest: Manifest) -> list[Question]:
    """Return the questions about documents that were scanned, changed to be about the scans."""
    scans = {scan.of: scan.doc_id for scan in manifest.scans}
    return [
        Question(
            question.text,
            question.answers,
            question.kind,
            tuple(PageRef(scans[ref.doc_id], ref.page) for ref in question.evidence),
        )
        for question in questions
        if question.doc_id in scans
    ]


def _question(sample: Sample) -> Question:
    kind = sample.extra.get("kind")
    if kind not in set(Kind):
        raise UserError(f"kind={kind!r}: expected one of {', '.join(Kind)}")
    if not sample.evidence_pages:
        raise UserError("field 'evidence_pages' is empty: list all pages that hold the answer")
    if not sample.question.strip():
        raise UserError("field 'question' is empty")
    evidence = tuple(PageRef(sample.doc_id, page) for page in sample.evidence_pages)
    return Question(sample.question, sample.answers, Kind(kind), evidence)
