"""The file of questions itself, held against the list of documents."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rapidfuzz import fuzz

from benchmarks.retrieval.questions import Kind, Question, about_scans, read
from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from tools.documents.manifest import Manifest, read_manifest

SAME_WORDING = 85
"""Similarity of two questions, of 100, from which one is the other in different words."""


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return read()


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest()


def test_there_are_enough_questions_of_each_kind_and_document(
    questions: list[Question], manifest: Manifest
) -> None:
    counts = Counter(question.kind for question in questions)
    assert len(questions) >= 60
    assert all(counts[kind] >= 12 for kind in Kind)
    assert max(counts.values()) <= 2 * min(counts.values())
    assert sum(len(question.evidence) > 1 for question in questions) >= 6
    counts = Counter(question.doc_id for question in questions)
    assert set(counts) == {document.doc_id for document in manifest.documents}
    assert max(counts.values()) <= len(questions) / 4


def test_evidence_lies_in_the_documents(questions: list[Question], manifest: Manifest) -> None:
    pages = {document.doc_id: document.pages for document in manifest.documents}
    wrong = [
        (question.text, ref)
        for question in questions
        for ref in question.evidence
        if not 1 <= ref.page <= pages.get(ref.doc_id, 0)
    ]
    assert wrong == []


def test_no_question_is_there_twice(questions: list[Question]) -> None:
    alike = [
        (one.text, other.text)
        for one, other in itertools.combinations(questions, 2)
        if fuzz.token_sort_ratio(one.text.lower(), other.text.lower()) >= SAME_WORDING
    ]
    assert alike == []
    places = Counter((question.evidence, question.answers) for question in questions)
    assert [place for place, count in places.items() if count > 1] == []


def test_questions_are_questions_and_do_not_hold_their_answers(questions: list[Question]) -> None:
    for question in questions:
        assert question.text.endswith("?")
        assert question.text == " ".join(question.text.split())
        assert question.answers
        # numbers and short words may occur in a question by chance
        told = [a for a in question.answers if len(a) > 4 and a.lower() in question.text.lower()]
        assert told == [], question.text


def test_questions_about_a_scan_are_those_about_its_original(
    questions: list[Question], manifest: Manifest
) -> None:
    [scan] = manifest.scans
    scanned = about_scans(questions, manifest)
    originals = [question for question in questions if question.doc_id == scan.of]
    assert len(scanned) == len(originals) >= 10
    for found, original in zip(scanned, originals, strict=True):
        evidence = tuple(PageRef(scan.doc_id, ref.page) for ref in original.evidence)
        assert found == replace(original, evidence=evidence)


@pytest.mark.parametrize(
    "changes", [{"kind": "picture"}, {"evidence_pages": []}, {"question": " "}, {"answers": []}]
)
def test_a_bad_line_is_named(tmp_path: Path, changes: dict) -> None:
    good = {"doc_id": "K", "question": "How?", "answers": ["so"], "evidence_pages": [1], "kind": "text"}
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(good | changes)}\n")
    with pytest.raises(UserError, match=rf"questions\.jsonl:2: .*{next(iter(changes))}"):
        read(path)
