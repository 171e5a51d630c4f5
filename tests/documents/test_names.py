"""Names that look the same are the same, whatever system wrote them."""

import json
import unicodedata

import pytest

from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.validation import validate_file

WHOLE = unicodedata.normalize("NFC", "Übersicht 図が")
APART = unicodedata.normalize("NFD", WHOLE)


@pytest.mark.parametrize(("file", "asked"), [(WHOLE, APART), (APART, WHOLE), (APART, APART)])
def test_a_question_finds_its_document_in_any_form(inbox, write_pdf, tmp_path, file, asked):
    assert WHOLE != APART
    write_pdf(inbox / f"{file}.pdf", ["alpha", "beta"])
    assert ingest(inbox, tmp_path / "store", workers=1).ingested == [WHOLE]
    store = DocumentStore(tmp_path / "store")
    assert asked in store
    assert store.document(asked).doc_id == WHOLE
    (hits,) = BM25Retriever.build(store).search(["beta"], doc_id=asked, top_k=1)
    assert (hits[0].ref.doc_id, hits[0].ref.page) == (WHOLE, 2)
    row = {"doc_id": f"{asked}.pdf", "question": "What?", "answers": "beta"}
    row["extra"] = {"page_ids": [f"{asked}#2"]}
    row["evidence_pages"] = [2]
    (tmp_path / "questions.jsonl").write_text(json.dumps(row))
    found = validate_file(tmp_path / "questions.jsonl", store=store)
    assert found.problems == []
    (_, sample) = found.samples[0]
    assert sample.gold_pages == {(WHOLE, 2)}
    assert ingest(inbox, tmp_path / "store", workers=1).skipped == [WHOLE]


def test_two_files_of_one_name_are_left_out_and_named(inbox, write_pdf, tmp_path):
    for name in (WHOLE, APART):
        write_pdf(inbox / f"{name}.pdf", ["alpha"])
    report = ingest(inbox, tmp_path / "store", workers=1)
    assert report.ingested == []
    assert {failure.name for failure in report.failed} == {f"{WHOLE}.pdf", f"{APART}.pdf"}
