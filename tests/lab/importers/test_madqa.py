"""MADQA: alternatives that are lists, and evidence in several documents."""

import pytest

from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers.finishing import OUTSIDE
from docagent_rl.lab.importers.native import NO_ANSWER
from docagent_rl.samples.sample import Split
from tests.lab.importers.conftest import rows_of


def row(**changes: object) -> dict[str, object]:
    return {
        "id": "q1",
        "question": "Which offices closed?",
        "answer_variants": [["Oslo"], ["Oslo, Norway"]],
        "evidence": [{"document": "b.pdf", "page": 2}, {"document": "a.pdf", "page": 1}],
        "document_category": "Report",
        "domain": "Business",
        **changes,
    }


def test_alternatives_and_pages_of_two_documents(files, run, tmp_path):
    for name in ("a", "b", "never_asked"):
        files.pdf(f"pdfs/{name}.pdf", 2)
    files.parquet("data/documents/document_urls-0.parquet", [{"document": "a.pdf", "url": "u"}])
    files.parquet("data/dev-00000-of-00001.parquet", [row()])
    (sample,), report = run("madqa", store=True)
    assert (sample.dataset, sample.split, sample.question_id) == ("madqa", Split.VAL, "q1")
    assert (sample.answers, sample.answer_format, sample.lists_answers) == (
        ("Oslo", "Oslo, Norway"),
        "string",
        False,
    )
    assert sample.extra["gold"] == [["Oslo"], ["Oslo, Norway"]]
    assert (sample.doc_id, sample.evidence_pages, sample.extra["page_ids"]) == (
        "b",
        (2,),
        ["a#1", "b#2"],
    )
    assert (sample.extra["domain"], sample.extra["retrieval_scope"]) == ("Business", "corpus")
    # retrieval runs over all documents
    assert DocumentStore(tmp_path / "store").doc_ids() == ["a", "b", "never_asked"]
    assert (list(report.files), report.unread) == (["data/dev-00000-of-00001.parquet"], [])


def test_items_of_a_list_are_the_answer_together(files, run):
    variants = [["all three"], ["Oslo", "Rome", "Bern"], ["Oslo", "Roma", "Bern"]]
    files.parquet("data/train-0.parquet", [row(answer_variants=variants)])
    (sample,), _ = run("madqa")
    assert (sample.answers, sample.answer_format) == (("Oslo", "Rome", "Bern"), "list")
    assert sample.extra["gold"] == variants


def test_rows_that_give_no_question_are_counted(files, run):
    rows = [
        row(),
        row(id="hidden", answer_variants=[]),
        row(id="blank", answer_variants=[[" "]]),
        row(id="nowhere", evidence=[]),
        row(id="beyond", evidence=[{"document": "a.pdf", "page": 9}]),
        row(id="odd", evidence=[{"document": "../a.pdf", "page": 1}]),
        row(id="unpaged", evidence=[{"document": "a.pdf", "page": None}]),
    ]
    files.pdf("pdfs/a.pdf", 2)
    files.pdf("pdfs/b.pdf", 2)
    files.parquet("data/test-0.parquet", rows)
    samples, report = run("madqa", store=True)
    assert [sample.question_id for sample in samples] == ["q1", "beyond"]
    assert rows_of(report.skipped) == {NO_ANSWER: [1, 2], "evidence": [3, 5, 6]}
    assert rows_of(report.notes) == {OUTSIDE: [4]}


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_every_split_has_its_own_file(files, run, split):
    files.parquet(f"data/{split}-0.parquet", [row()])
    (sample,), _ = run("madqa")
    assert sample.split is {"train": Split.TRAIN, "dev": Split.VAL, "test": Split.TEST}[split]
