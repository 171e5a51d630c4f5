"""From a miniature of each benchmark to a file that may be trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.records.importers import Benchmark
from docagent_rl.records.parquet import read_parquet, validate_parquet, write_parquet
from docagent_rl.records.record import write_jsonl
from docagent_rl.records.validation import validate_jsonl
from tests.records.importers import (
    test_alden,
    test_corpora,
    test_dude,
    test_longdocurl,
    test_mmlongbench_doc,
    test_mp_docvqa,
    test_slidevqa,
)
from tests.records.importers.conftest import Files, Import


def mmlongbench_doc(files: Files) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 4)
    nothing = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[2]"}
    files.json("data/samples.json", [test_mmlongbench_doc.row(), test_mmlongbench_doc.row(**nothing)])


def longdocurl(files: Files) -> None:
    files.pdf("pdf_files/4026369.pdf", 6)
    files.jsonl(
        "LongDocURL_public.jsonl", [test_longdocurl.row(), test_longdocurl.row(question_id="b", answer=3)]
    )


def slidevqa(files: Files) -> None:
    files.parquet("data/test-0.parquet", [test_slidevqa.hub_row(3), test_slidevqa.hub_row(3, qa_id=2)])


def mp_docvqa(files: Files) -> None:
    for number in (80, 81, 82):
        files.image(f"images/pybv0228_p{number}.jpg", f"page {number}")
    test_mp_docvqa.write(files, "val", [test_mp_docvqa.row(), test_mp_docvqa.row(questionId=2)])


def dude(files: Files) -> None:
    files.pdf("PDF/train/0017b64b.pdf", 3)
    nothing = {"answers": [], "answer_type": "not-answerable", "answers_page_bounding_boxes": []}
    test_dude.write(files, [test_dude.row(), test_dude.row(questionId="n", **nothing)])


def vidoseek(files: Files) -> None:
    files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
    files.json("vidoseek.json", {"examples": [test_corpora.row(), test_corpora.row(uid="b")]})


def uda(files: Files) -> None:
    files.pdf("src_doc_files/wiki_feta_docs/pdfs/a.pdf", 1)
    files.text(
        "dataset/qa/feta_qa.csv", "doc_name|q_uid|question|answer|doc_url\na|1|Who?|me|u\na|2|Why?|so|u\n"
    )


def vrag_rl(files: Files) -> None:
    files.pdf("pdf/a_b_02.pdf", 11)
    files.json("rag_dataset.json", {"examples": [test_corpora.row(uid=1), test_corpora.row(uid=2)]})


def unidoc_rl(files: Files) -> None:
    files.parquet("train.parquet", [test_corpora.unidoc(), test_corpora.unidoc()])
    for name, pages in (("deck_a", 3), ("deck_b", 1)):
        for number in range(1, pages + 1):
            files.image(f"img/{name}_{number}.jpg", f"{name} {number}")


def alden(files: Files) -> None:
    test_alden.corpus(files, {"scan": test_alden.ORDER["scan"]})
    nothing = {"answer": "The problem is not answerable", "answer_page_idx": []}
    files.parquet("dude/train.parquet", [test_alden.row(), test_alden.row(**nothing)])


MAKERS: Mapping[str, Callable[[Files], None]] = {
    each.__name__: each
    for each in (
        mmlongbench_doc,
        longdocurl,
        slidevqa,
        mp_docvqa,
        dude,
        vidoseek,
        uda,
        vrag_rl,
        unidoc_rl,
        alden,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", Benchmark)
def test_a_benchmark_becomes_a_file_to_train_on(
    files: Files, run: Import, tmp_path: Path, benchmark: Benchmark
) -> None:
    MAKERS[benchmark](files)
    records, report = run(benchmark, store=True)
    assert (len(records), report.rows_read, report.rows_skipped) == (2, 2, 0)
    assert report.documents["missing"] == report.documents["failed"] == 0
    store = DocumentStore(tmp_path / "store")
    lines = validate_jsonl(write_jsonl(records, tmp_path / "records.jsonl"), store=store)
    assert lines.problems == ()
    path = write_parquet(records, tmp_path / "records.parquet")
    assert validate_parquet(path, store=store).problems == ()
    assert read_parquet(path) == records

    again, second = run(benchmark, store=True)
    assert again == records
    assert second.to_json() == report.to_json()
    elsewhere = run(benchmark)[0]
    assert [record.question_id for record in elsewhere] == [record.question_id for record in records]
