"""Measure how well a retriever finds the evidence of questions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from benchmarks.retrieval.metrics import recall_at, reciprocal_rank
from benchmarks.retrieval.questions import Kind, Question, about_scans
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import Retriever
from tools.documents.manifest import Manifest


class Scope(StrEnum):
    """The pages that are searched: those of the question's document, or of all documents."""

    DOCUMENT = "document"
    CORPUS = "corpus"


@dataclass(frozen=True, slots=True)
class Score:
    """Means over questions: recall among the first 1 and 5 pages, and mean reciprocal rank."""

    questions: int
    recall_1: float
    recall_5: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Result:
    """The scores of a retriever on some of the questions.

    Args:
        retriever: its name.
        part: the questions that are counted: those of a kind, `all`, those about the documents that
            were scanned (`original`), or the same about the scans (`scan`).
        scores: the scores by scope.
    """

    retriever: str
    part: str
    scores: Mapping[Scope, Score]


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and the pages that a retriever found, best first, in each scope."""

    question: Question
    ranked: Mapping[Scope, tuple[PageRef, ...]]


def check_store(store: DocumentStore, manifest: Manifest) -> None:
    """Check that the store holds exactly the documents of the manifest.

    Others would be searched, too.

    Raises:
        UserError: a document is missing, has another number of pages, or is not in the manifest.
    """
    pages = manifest.pages()
    found = {doc_id: store.document(doc_id).num_pages for doc_id in store.doc_ids()}
    wrong = sorted(
        doc_id for doc_id in pages.keys() | found.keys() if pages.get(doc_id) != found.get(doc_id)
    )
    if wrong:
        more = f", and {len(wrong) - 1} more differ" if wrong[1:] else ""
        raise UserError(
            f"{store.path} must hold exactly the documents that the questions are about, but "
            f"{wrong[0]!r} has "
            f"{found.get(wrong[0], 0)} pages where {pages.get(wrong[0], 0)} are expected{more}; "
            "`make documents` makes such a store in workspace/documents/store"
        )


def ask(retriever: Retriever, questions: Sequence[Question], manifest: Manifest) -> list[Answered]:
    """Search for each question in its document and in the corpus; rankings are not cut off.

    A scan and its original are the same document: for a question about one of them, the other is
    excluded from the corpus.
    """
    scans = {scan.doc_id for scan in manifest.scans}
    originals = {scan.of for scan in manifest.scans}
    pages = manifest.pages()
    total = sum(pages.values())
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[question.doc_id].append(question)
    answered = []
    for doc_id, group in groups.items():
        texts = [question.text for question in group]
        inside = retriever.search(texts, doc_id=doc_id, top_k=total)
        absent = _pages(originals if doc_id in scans else scans, pages)
        corpus = retriever.search(texts, top_k=total, exclude=absent)
        for question, *found in zip(group, inside, corpus, strict=True):
            ranked = {
                scope: tuple(hit.ref for hit in hits)
                for scope, hits in zip(Scope, found, strict=True)
            }
            answered.append(Answered(question, ranked))
    return answered


def evaluate(
    name: str, retriever: Retriever, questions: Sequence[Question], manifest: Manifest
) -> tuple[list[Result], list[Answered], float]:
    """Ask all questions, and ask those about scanned documents again about the scans.

    Args:
        name: the retriever's name in the results.
        retriever: a retriever over all documents.
        questions: the questions.
        manifest: the documents.

    Returns:
        the results (for each kind of question, for all questions, for those about the originals of
        scans, and for the same about the scans), each question with the pages found, and the mean
        processor time of a search in seconds.
    """
    originals = {scan.of for scan in manifest.scans}
    scanned = about_scans(questions, manifest)
    start = time.process_time()
    answered = ask(retriever, questions, manifest)
    from_scans = ask(retriever, scanned, manifest)
    seconds = (time.process_time() - start) / (2 * (len(questions) + len(scanned)))
    parts: dict[str, list[Answered]] = {
        str(kind): [found for found in answered if found.question.kind is kind] for kind in Kind
    }
    parts["all"] = answered
    parts["original"] = [found for found in answered if found.question.doc_id in originals]
    parts["scan"] = from_scans
    results = [
        Result(name, part, {scope: score(found, scope) for scope in Scope})
        for part, found in parts.items()
        if found
    ]
    return results, [*answered, *from_scans], seconds


def score(answered: Sequence[Answered], scope: Scope) -> Score:
    """Return the means over questions, of which there must be at least one."""
    pairs = [(found.ranked[scope], found.question.evidence) for found in answered]
    count = len(pairs)
    return Score(
        count,
        sum(recall_at(ranked, evidence, 1) for ranked, evidence in pairs) / count,
        sum(recall_at(ranked, evidence, 5) for ranked, evidence in pairs) / count,
        sum(reciprocal_rank(ranked, evidence) for ranked, evidence in pairs) / count,
    )


def as_ranks(found: Answered) -> dict[str, Any]:
    """Return a question with the ranks of its evidence pages, from 1, or None if not found."""
    question = found.question
    ranks = {
        scope: [ranked.index(ref) + 1 if ref in ranked else None for ref in question.evidence]
        for scope, ranked in found.ranked.items()
    }
    pages = [ref.page for ref in question.evidence]
    return {
        "doc_id": question.doc_id,
        "question": question.text,
        "kind": question.kind,
        "evidence_pages": pages,
    } | ranks


def _pages(doc_ids: Iterable[str], pages: Mapping[str, int]) -> frozenset[PageRef]:
    return frozenset(PageRef(doc_id, n) for doc_id in doc_ids for n in range(1, pages[doc_id] + 1))
