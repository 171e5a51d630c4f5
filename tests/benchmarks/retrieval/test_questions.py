"""The file of questions, compared with the list of documents."""

import json
from dataclasses import replace

import pytest

from benchmarks.retrieval.questions import Question, about_scans, read
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from tools.documents.manifest import Manifest, read_manifest


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return read()


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest()


def test_evidence_lies_in_the_documents(questions, manifest):
    pages = {document.doc_id: document.pages for document in manifest.documents}
    wrong = [
        (question.text, ref)
        for question in questions
        for ref in question.evidence
        if not 1 <= ref.page <= pages.get(ref.doc_id, 0)
    ]
    assert wrong == []


def test_questions_about_a_scan_are_those_about_its_original(questions, manifest):
    [scan] = manifest.scans
    scanned = about_scans(questions, manifest)
    originals = [question for question in questions if question.doc_id == scan.of]
    assert len(scanned) == len(originals) >= 10
    for found, original in zip(scanned, originals, strict=True):
        evidence = tuple(PageRef(scan.doc_id, ref.page) for ref in original.evidence)
        assert found == replace(original, evidence=evidence)


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"extra": {"kind": "picture"}}, "kind"), ({"evidence_pages": []}, "evidence_pages"),
     ({"question": " "}, "question"), ({"answers": []}, "answers")],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path, changes, named):
    good = {"doc_id": "K", "question": "How?", "answers": ["so"], "evidence_pages": [1]}
    good["extra"] = {"kind": "text"}
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(good | changes)}\n")
    with pytest.raises(UserError, match=rf"questions\.jsonl:2: .*{named}"):
        read(path)
